// SPDX-License-Identifier: MIT
#include "tools/replay/plot.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace custash::replay {
namespace {

constexpr double kWidth = 960;
constexpr double kHeight = 420;
constexpr double kLeft = 80;
constexpr double kRight = 20;
constexpr double kTop = 56;
constexpr double kBottom = 48;
constexpr std::size_t kMostPoints = 1200;
constexpr const char* kHeldColour = "#b35900";
constexpr const char* kUsedColour = "#1f5fa8";

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (static_cast<unsigned char>(c) >= 0x20)
      out += c;
  }
  return out;
}

// 1, 2 or 5 times a power of ten, so that about `ticks` of them make `range`.
double tick_step(double range, int ticks) {
  const double rough = range / ticks;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= rough) return factor * power;
  return 10 * power;
}

// The most of each stretch of events, so that no peak is lost.
std::vector<double> thinned(const std::vector<Sample>& samples, Bytes Sample::*series) {
  const std::size_t stretch = (samples.size() + kMostPoints - 1) / kMostPoints;
  std::vector<double> points;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const auto gib = static_cast<double>(samples[i].*series) / static_cast<double>(1_GiB);
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

std::string text(double x, double y, const char* anchor, const std::string& what) {
  return "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\" text-anchor=\"" + anchor +
         "\">" + what + "</text>\n";
}

std::string line(double x1, double y1, double x2, double y2, const char* colour) {
  return "<path d=\"M" + number(x1) + ' ' + number(y1) + 'L' + number(x2) + ' ' + number(y2) +
         "\" stroke=\"" + colour + "\"/>\n";
}

std::string curve(const Frame& frame, const std::vector<double>& points, const char* colour) {
  std::string out = "<path fill=\"none\" stroke-width=\"1.5\" stroke=\"";
  out += std::string(colour) + "\" d=\"";
  const double step =
      frame.most_x / static_cast<double>(std::max<std::size_t>(points.size(), 1));
  for (std::size_t i = 0; i < points.size(); ++i) {
    out += i == 0 ? 'M' : 'L';
    out += number(frame.x(static_cast<double>(i) * step)) + ' ' + number(frame.y(points[i]));
  }
  return out + "\"/>\n";
}

std::string axes(const Frame& frame) {
  std::string out;
  const double step_y = tick_step(frame.most_y, 6);
  for (double at = 0; at <= frame.most_y; at += step_y) {
    out += line(kLeft, frame.y(at), kWidth - kRight, frame.y(at), "#ddd");
    out += text(kLeft - 8, frame.y(at) + 4, "end", number(at));
  }
  const double step_x = tick_step(frame.most_x, 8);
  for (double at = 0; at <= frame.most_x; at += step_x)
    out += text(frame.x(at), kHeight - kBottom + 18, "middle", number(at));
  out += text(kLeft - 8, kTop - 10, "end", "GiB");
  return out + text(kWidth - kRight, kHeight - 8, "end", "event");
}

}  // namespace

std::string plot_of(const std::string& title, const std::vector<Sample>& samples) {
  const std::vector<double> held = thinned(samples, &Sample::held);
  const std::vector<double> used = thinned(samples, &Sample::in_use);
  Frame frame;
  if (!samples.empty()) frame.most_x = static_cast<double>(samples.size());
  for (const auto* points : {&held, &used})
    for (const double point : *points)
      frame.most_y = std::max(frame.most_y, point * 1.05);
  std::string out = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " +
                    number(kWidth) + ' ' + number(kHeight) +
                    "\" font-family=\"sans-serif\" font-size=\"12\" fill=\"#333\">\n"
                    "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n";
  out += text(kLeft, 20, "start", escaped(title)) + axes(frame);
  out += curve(frame, held, kHeldColour) + curve(frame, used, kUsedColour);
  const auto legend = [&](double x, const char* colour, const char* what) {
    out += line(x, 34, x + 24, 34, colour) + text(x + 30, 38, "start", what);
  };
  legend(kLeft, kHeldColour, "held from the driver");
  legend(kLeft + 200, kUsedColour, "in use");
  return out + "</svg>\n";
}

}  // namespace custash::replay
