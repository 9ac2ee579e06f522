// SPDX-License-Identifier: MIT
#include "interpose/process/printable.hpp"
#include "tools/command/compare/forms.hpp"
#include "tools/command/compare/rows.hpp"
#include "tools/plot/svg.hpp"
#include "tools/text.hpp"

#include <algorithm>
#include <cmath>

namespace custash::compare {
namespace {

constexpr double kPanel = 340;  // width
constexpr double kHeight = 330;
constexpr double kLeft = 84;
constexpr double kRight = 16;
constexpr double kTop = 76;
constexpr double kBottom = 44;
constexpr std::array kColours = {"#c4650c", "#1f78c8"};  // by Side; both readable on dark, too

// Cut where it would run into the next one.
std::string name_of(const Report& report, Side side) {
  constexpr std::size_t kMost = 24;
  const std::string& name = report.sides.at(index_of(side));
  return svg::escaped(printable(cut(name, kMost))) + (name.size() > kMost ? "..." : "");
}

struct Axis {
  double left = 0;  // of the panel
  double least = 0;
  double most = 1;

  [[nodiscard]] double x(double share) const {
    return left + kLeft + share * (kPanel - kLeft - kRight);
  }

  [[nodiscard]] double y(double value) const {
    const double share = (std::clamp(value, least, most) - least) / (most - least);
    return kHeight - kBottom - share * (kHeight - kTop - kBottom);
  }
};

// From zero, or from the least value, to the largest. A metric may have any size.
Axis axis_of(const Row& row, double left) {
  constexpr double kEnd = 1e300;
  constexpr double kMargin = 1.05;
  const double least = std::min(row.spreads[0].least, row.spreads[1].least);
  const double most = std::max(row.spreads[0].most, row.spreads[1].most);
  Axis axis{
      left, std::clamp(least * kMargin, -kEnd, 0.0), std::clamp(most * kMargin, 0.0, kEnd)};
  if (axis.most - axis.least < 1 / kEnd) axis.most = 1;
  return axis;
}

// Steps of 1, 2 or 5 times a power of ten of seconds, or of a power of 1,024 of bytes.
double step_of(const Row& row, double most) {
  constexpr int kTicks = 4;
  if (row.unit != Unit::Bytes) return svg::tick_step(most, kTicks);
  double unit = 1;
  while (most / unit >= 1024)
    unit *= 1024;
  return svg::tick_step(most / unit, kTicks) * unit;
}

// Shorter than in the table: no digits that say nothing.
std::string tick_text(double at, const Row& row, double most) {
  if (at == 0) return "0";
  if (row.unit != Unit::Seconds) return shown(at, row);
  constexpr double kMilli = 1000;
  return most < 1 ? svg::number(at * kMilli) + " ms" : svg::number(at) + " s";
}

std::string frame(const Row& row, const Axis& axis) {
  std::string out = svg::text({axis.left + kLeft, kTop - 14}, "start", svg::escaped(row.name));
  const double step = step_of(row, axis.most - axis.least);
  for (auto i = std::lround(std::ceil(axis.least / step));
       static_cast<double>(i) * step <= axis.most;
       ++i) {
    const double at = static_cast<double>(i) * step;
    out += svg::line({axis.x(0), axis.y(at)}, {axis.x(1), axis.y(at)}, kGridColour);
    out += svg::text({axis.x(0) - 8, axis.y(at) + 4}, "end", tick_text(at, row, axis.most));
  }
  return out;
}

// A dot for each round, and a stroke for the median.
std::string dots(const Row& row, double left) {
  const Axis axis = axis_of(row, left);
  std::string out = frame(row, axis);
  const auto rounds = row.values[0].size();
  const auto place = [&](std::size_t i) {
    return axis.x((static_cast<double>(i) + 0.5) / static_cast<double>(rounds));
  };
  for (const Side side : kSides) {
    const char* const colour = kColours.at(index_of(side));
    const double median = axis.y(row.spreads.at(index_of(side)).median);
    out += svg::line({axis.x(0), median}, {axis.x(1), median}, colour);
    for (std::size_t i = 0; i < rounds; ++i)
      out += svg::dot({place(i), axis.y(row.values.at(index_of(side))[i])}, colour);
  }
  const std::size_t every = (rounds + 9) / 10;
  for (std::size_t i = 0; i < rounds; i += every)
    out += svg::text({place(i), kHeight - kBottom + 18}, "middle", std::to_string(i + 1));
  return out + svg::text({axis.x(0.5), kHeight - 8}, "middle", "round");
}

// The medians.
std::string bars(const Report& report, const Row& row, double left) {
  const Axis axis = axis_of(row, left);
  std::string out = frame(row, axis);
  for (const Side side : kSides) {
    const std::size_t i = index_of(side);
    const double centre = i == 0 ? 0.27 : 0.73;
    const double top = axis.y(row.spreads.at(i).median);
    out += svg::bar(
        {axis.x(centre - 0.17), top}, {axis.x(centre + 0.17), axis.y(0)}, kColours.at(i));
    out += svg::text({axis.x(centre), top - 5}, "middle", shown(row.spreads.at(i).median, row));
    out += svg::text({axis.x(centre), kHeight - kBottom + 18}, "middle", name_of(report, side));
  }
  return out;
}

}  // namespace

Drawing draw(const Report& report) {
  Drawing drawing{0, kHeight, ""};
  for (const Row& row : report.rows) {
    const bool is_main = row.unit != Unit::Seconds || row.name == "wall time";
    if (!is_main) continue;
    drawing.body +=
        row.unit == Unit::Bytes ? bars(report, row, drawing.width) : dots(row, drawing.width);
    drawing.width += kPanel;
  }
  drawing.width = std::max(drawing.width, 2 * kPanel);  // room for the title
  for (const Side side : kSides)
    drawing.body += svg::key({16 + 190 * static_cast<double>(index_of(side)), 40},
                             kColours.at(index_of(side)),
                             name_of(report, side));
  return drawing;
}

std::string as_picture(const Report& report) {
  const Drawing drawing = draw(report);
  constexpr std::size_t kMost = 90;
  const std::string title =
      printable(cut(report.program, kMost)) + (report.program.size() <= kMost ? "" : "...");
  return svg::document(drawing.width,
                       drawing.height,
                       svg::text({16, 22}, "start", svg::escaped(title)) + drawing.body);
}

}  // namespace custash::compare
