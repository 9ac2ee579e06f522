// SPDX-License-Identifier: MIT
#include "tools/plot/svg.hpp"

#include "tools/output_file.hpp"

#include <cmath>
#include <cstdio>

namespace custash::svg {

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

double tick_step(double range, int ticks) {
  const double rough = range / ticks;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= rough) return factor * power;
  return 10 * power;
}

std::string text(Point at, const char* anchor, const std::string& what) {
  return "<text x=\"" + number(at.x) + "\" y=\"" + number(at.y) + "\" text-anchor=\"" + anchor +
         "\">" + what + "</text>\n";
}

std::string line(Point from, Point to, const char* colour) {
  return "<path d=\"M" + number(from.x) + ' ' + number(from.y) + 'L' + number(to.x) + ' ' +
         number(to.y) + "\" stroke=\"" + colour + "\"/>\n";
}

std::string curve(const std::vector<Point>& points, const char* colour) {
  std::string out = "<path fill=\"none\" stroke-width=\"1.5\" stroke=\"";
  out += std::string(colour) + "\" d=\"";
  for (const Point& point : points)
    out += (&point == points.data() ? 'M' : 'L') + number(point.x) + ' ' + number(point.y);
  return out + "\"/>\n";
}

std::string dot(Point at, const char* colour) {
  return "<circle r=\"2.5\" cx=\"" + number(at.x) + "\" cy=\"" + number(at.y) + "\" fill=\"" +
         colour + "\"/>\n";
}

std::string bar(Point top_left, Point bottom_right, const char* colour) {
  return "<rect x=\"" + number(top_left.x) + "\" y=\"" + number(top_left.y) + "\" width=\"" +
         number(bottom_right.x - top_left.x) + "\" height=\"" +
         number(bottom_right.y - top_left.y) + "\" fill=\"" + colour + "\"/>\n";
}

std::string key(Point at, const char* colour, const std::string& what) {
  return line(at, {at.x + 24, at.y}, colour) + text({at.x + 30, at.y + 4}, "start", what);
}

std::string document(double width, double height, const std::string& body) {
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + number(width) + ' ' +
         number(height) + "\" font-family=\"sans-serif\" font-size=\"12\" fill=\"#333\">\n" +
         std::string(output::kPictureMark) + "\n" +
         "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n" + body + "</svg>\n";
}

}  // namespace custash::svg
