// SPDX-License-Identifier: MIT
// The parts of a picture as SVG, self-contained: no font, style or script from elsewhere. Pure.
#pragma once

#include <string>
#include <vector>

namespace custash::svg {

struct Point {
  double x = 0;
  double y = 0;
};

std::string number(double value);
std::string escaped(const std::string& text);  // to stand between tags

// 1, 2 or 5 times a power of ten, so that about `ticks` of them make `range`.
double tick_step(double range, int ticks);

std::string text(Point at, const char* anchor, const std::string& what);
std::string line(Point from, Point to, const char* colour);
std::string curve(const std::vector<Point>& points, const char* colour);
std::string dot(Point at, const char* colour);
std::string bar(Point top_left, Point bottom_right, const char* colour);
// A stroke of the colour, and what it stands for.
std::string key(Point at, const char* colour, const std::string& what);

std::string document(double width, double height, const std::string& body);

}  // namespace custash::svg

// Parts of the pages that the command writes: each is one file, with nothing from elsewhere.
// The head marks a page as custash's, so that custash replaces it.
namespace custash::page {

// Up to the beginning of the body. `style`: rules of this page.
std::string head(const std::string& title, const std::string& style = "");

// An element with text, which is escaped.
std::string tag(const char* name, const std::string& text);

}  // namespace custash::page
