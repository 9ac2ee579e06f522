// SPDX-License-Identifier: MIT
#include "tools/plot/svg.hpp"
#include "tools/replay/report.hpp"

#include <algorithm>

namespace custash::replay {
namespace {

constexpr double kWidth = 960;
constexpr double kHeight = 420;
constexpr double kLeft = 80;
constexpr double kRight = 20;
constexpr double kTop = 56;
constexpr double kBottom = 48;
constexpr double kHalfLabel = 24;
constexpr std::size_t kMostPoints = 1200;
constexpr const char* kHeldColour = "#b35900";
constexpr const char* kUsedColour = "#1f5fa8";
constexpr const char* kMarkColours[] = {"#2b8a3e", "#9c36b5"};

double gib_of(Bytes bytes) {
  return static_cast<double>(bytes) / static_cast<double>(1_GiB);
}

// The most of each stretch of events, so that no peak is lost.
std::vector<double> thinned(const std::vector<Sample>& samples, Bytes Sample::*series) {
  const std::size_t stretch = (samples.size() + kMostPoints - 1) / kMostPoints;
  std::vector<double> points;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const double gib = gib_of(samples[i].*series);
    if (i % stretch == 0) points.push_back(gib);
    points.back() = std::max(points.back(), gib);
  }
  return points;
}

struct Frame {
  double most_x = 1;     // events
  double most_y = 1e-3;  // GiB

  double x(double value) const { return kLeft + value / most_x * (kWidth - kLeft - kRight); }

  double y(double value) const {
    return kHeight - kBottom - value / most_y * (kHeight - kTop - kBottom);
  }
};

std::vector<svg::Point> placed(const Frame& frame, const std::vector<double>& values) {
  const double step =
      frame.most_x / static_cast<double>(std::max<std::size_t>(values.size(), 1));
  std::vector<svg::Point> points;
  for (std::size_t i = 0; i < values.size(); ++i)
    points.push_back({frame.x(static_cast<double>(i) * step), frame.y(values[i])});
  return points;
}

std::string axes(const Frame& frame) {
  std::string out;
  const double step_y = svg::tick_step(frame.most_y, 6);
  for (double at = 0; at <= frame.most_y; at += step_y) {
    out += svg::line({kLeft, frame.y(at)}, {kWidth - kRight, frame.y(at)}, "#ddd");
    out += svg::text({kLeft - 8, frame.y(at) + 4}, "end", svg::number(at));
  }
  const double step_x = svg::tick_step(frame.most_x, 8);
  for (double at = 0; at <= frame.most_x; at += step_x) {
    // The last one may stand at the very edge.
    const bool at_edge = frame.x(at) > kWidth - kRight - kHalfLabel;
    out += svg::text({at_edge ? kWidth - kRight : frame.x(at), kHeight - kBottom + 18},
                     at_edge ? "end" : "middle",
                     svg::number(at));
  }
  out += svg::text({kLeft - 8, kTop - 10}, "end", "GiB");
  return out + svg::text({kWidth - kRight, kHeight - 8}, "end", "event");
}

}  // namespace

std::string plot_of(const std::string& title,
                    const std::vector<Sample>& samples,
                    const std::vector<Mark>& marks) {
  const std::vector<double> held = thinned(samples, &Sample::held);
  const std::vector<double> used = thinned(samples, &Sample::in_use);
  Frame frame;
  if (!samples.empty()) frame.most_x = static_cast<double>(samples.size());
  for (const auto* points : {&held, &used})
    for (const double point : *points)
      frame.most_y = std::max(frame.most_y, point * 1.05);
  for (const Mark& mark : marks)
    frame.most_y = std::max(frame.most_y, gib_of(mark.bytes) * 1.05);
  std::string body = svg::text({kLeft, 20}, "start", svg::escaped(title)) + axes(frame);
  body += svg::curve(placed(frame, held), kHeldColour);
  body += svg::curve(placed(frame, used), kUsedColour);
  body += svg::key({kLeft, 34}, kHeldColour, "held from the driver");
  body += svg::key({kLeft + 200, 34}, kUsedColour, "in use");
  for (std::size_t i = 0; i < marks.size(); ++i) {
    const char* const colour = kMarkColours[i % std::size(kMarkColours)];
    const double y = frame.y(gib_of(marks[i].bytes));
    body += svg::line({kLeft, y}, {kWidth - kRight, y}, colour);
    body += svg::key({kLeft + 300 + 260 * static_cast<double>(i), 34}, colour, marks[i].what);
  }
  return svg::document(kWidth, kHeight, body);
}

}  // namespace custash::replay
