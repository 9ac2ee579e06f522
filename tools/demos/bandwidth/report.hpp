// SPDX-License-Identifier: MIT
// What was measured, as text, JSON and a picture. Pure.
#pragma once

#include "tools/demos/bandwidth/bench.hpp"

#include <string>

namespace custash::bandwidth {

std::string text_of(const Outcome& outcome);
std::string json_of(const Outcome& outcome);
std::string plot_of(const Outcome& outcome);  // SVG

// "NVIDIA H200, driver 13.0, under custash 0.1.0, medians of 11".
std::string title_of(const Outcome& outcome);

}  // namespace custash::bandwidth
