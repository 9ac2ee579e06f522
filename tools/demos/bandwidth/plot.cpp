// SPDX-License-Identifier: MIT
// The picture: bandwidth over size above, what a cold allocation costs below, both over sizes
// by powers of two.
#include "tools/demos/bandwidth/bench.hpp"
#include "tools/plot/svg.hpp"
#include "tools/text.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

namespace custash::bandwidth {
namespace {

constexpr double kWidth = 960;
constexpr double kPanel = 300;  // height of each
constexpr double kLeft = 80;
constexpr double kRight = 300;  // where the keys are
constexpr double kTop = 60;
constexpr double kBottom = 50;
constexpr std::array kColours = {
    "#1f5fa8", "#b35900", "#2b8a3e", "#9c36b5", "#c92a2a", "#0b7285", "#846600", "#5f3dc4"};

// Size and value.
using Series = std::map<std::string, std::vector<svg::Point>>;

// Panels differ in what a value is and how it is placed.
struct Panel {
  double top;
  bool logarithmic;
  const char* unit;
  Series series;

  double height(double value) const { return logarithmic ? std::log10(value) : value; }
};

struct Range {
  double least = 0;
  double most = 0;

  double part(double value) const {
    return most > least ? (value - least) / (most - least) : 0.5;
  }
};

struct Frame {
  double top;
  Range x;
  Range y;

  svg::Point at(double x_value, double y_value) const {
    return {kLeft + x.part(x_value) * (kWidth - kLeft - kRight),
            top + kPanel - y.part(y_value) * kPanel};
  }
};

Frame frame_of(const Panel& panel) {
  Frame frame{panel.top, {1e9, -1e9}, {panel.logarithmic ? 1e9 : 0, -1e9}};
  const auto widen = [](Range& range, double value) {
    range = {std::min(range.least, value), std::max(range.most, value)};
  };
  for (const auto& [name, points] : panel.series)
    for (const svg::Point& point : points) {
      widen(frame.x, std::log2(point.x));
      widen(frame.y, panel.height(point.y));
    }
  if (panel.logarithmic)
    frame.y = {std::floor(frame.y.least), std::ceil(frame.y.most)};
  else
    frame.y.most *= 1.05;
  return frame;
}

std::string axes(const Panel& panel, const Frame& frame) {
  std::string out;
  const double step = panel.logarithmic ? 1 : svg::tick_step(std::max(frame.y.most, 1e-3), 6);
  for (double at = frame.y.least; at <= frame.y.most; at += step) {
    const svg::Point left = frame.at(frame.x.least, at);
    out += svg::line({kLeft, left.y}, {kWidth - kRight, left.y}, "#ddd");
    const double value = panel.logarithmic ? std::pow(10, at) : at;
    out += svg::text({kLeft - 8, left.y + 4}, "end", svg::number(value));
  }
  const double every = std::max(1.0, std::ceil((frame.x.most - frame.x.least) / 10));
  for (double at = std::ceil(frame.x.least); at <= frame.x.most; at += every) {
    std::string size;
    const int power = static_cast<int>(at);
    add(size,
        "%d %s",
        1 << (power % 10),
        std::array{"B", "KiB", "MiB", "GiB", "TiB"}[power / 10]);
    out += svg::text({frame.at(at, 0).x, panel.top + kPanel + 18}, "middle", size);
  }
  return out + svg::text({kLeft - 8, panel.top - 12}, "end", panel.unit);
}

std::string drawn(const Panel& panel) {
  if (panel.series.empty()) return "";
  const Frame frame = frame_of(panel);
  std::string out = axes(panel, frame);
  std::size_t number = 0;
  for (const auto& [name, points] : panel.series) {
    const char* const colour = kColours[number % kColours.size()];
    std::vector<svg::Point> placed;
    for (const svg::Point& point : points)
      placed.push_back(frame.at(std::log2(point.x), panel.height(point.y)));
    // Of one size alone all series stand side by side, or they would hide each other.
    if (frame.x.most <= frame.x.least)
      for (svg::Point& point : placed)
        point.x = kLeft + (kWidth - kLeft - kRight) * (static_cast<double>(number) + 1) /
                              (static_cast<double>(panel.series.size()) + 1);
    out += svg::curve(placed, colour);
    for (const svg::Point& point : placed)
      out += svg::dot(point, colour);
    const double y = panel.top + 10 + 20 * static_cast<double>(number++);
    out += svg::key({kWidth - kRight + 16, y}, colour, svg::escaped(name));
    out += svg::dot({kWidth - kRight + 28, y}, colour);
  }
  return out;
}

std::string words(const Cell& cell) {
  std::string out(name_of(cell.memory));
  add(out, ", %u process%s", cell.processes, cell.processes == 1 ? "" : "es");
  return out;
}

}  // namespace

std::string plot_of(const Outcome& outcome) {
  Panel speed{kTop, false, "GB/s", {}};
  Panel cost{kTop + kPanel + kBottom + 40, true, "ms", {}};
  // Where both were measured, the copies of cached buffers: nothing else goes on beside them.
  const bool any_cached = std::any_of(outcome.figures.begin(),
                                      outcome.figures.end(),
                                      [](const Figures& f) { return !f.allocation; });
  for (const Figures& figures : outcome.figures) {
    const Cell& cell = figures.cell;
    const auto size = static_cast<double>(cell.bytes);
    if (!figures.allocation || !any_cached)
      speed.series[std::string(name_of(cell.direction)) + ", " + words(cell)].push_back(
          {size, figures.gb_per_s_all});
    // An allocation is the same whichever way the copy goes.
    if (!figures.allocation || cell.direction != outcome.figures.front().cell.direction)
      continue;
    constexpr double kLeast = 1e-5;  // 10 ns: a logarithm needs something
    const std::string what = words(cell) + ": ";
    cost.series[what + "first allocation"].push_back(
        {size, std::max(figures.allocation->first_ms, kLeast)});
    cost.series[what + "later ones"].push_back(
        {size, std::max(figures.allocation->later_ms, kLeast)});
  }
  for (Panel* const panel : {&speed, &cost})
    for (auto& [name, points] : panel->series)
      std::sort(
          points.begin(), points.end(), [](const auto& a, const auto& b) { return a.x < b.x; });
  const std::string title = svg::text({kLeft, 24}, "start", svg::escaped(title_of(outcome)));
  const double height = (cost.series.empty() ? speed.top : cost.top) + kPanel + kBottom;
  return svg::document(kWidth, height, title + drawn(speed) + drawn(cost));
}

}  // namespace custash::bandwidth
