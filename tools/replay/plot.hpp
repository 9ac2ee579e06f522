// SPDX-License-Identifier: MIT
// A picture of a replay: bytes in use and bytes held, event by event, as SVG. Pure.
#pragma once

#include "tools/replay/replay.hpp"

namespace custash::replay {

std::string plot_of(const std::string& title, const std::vector<Sample>& samples);

}  // namespace custash::replay
