// SPDX-License-Identifier: MIT
// A picture of a replay: bytes in use and bytes held, event by event, as SVG. Pure.
#pragma once

#include "tools/replay/replay.hpp"

namespace custash::replay {

// A level that is drawn across, with what it is.
struct Mark {
  std::string what;
  Bytes bytes = 0;
};

std::string plot_of(const std::string& title,
                    const std::vector<Sample>& samples,
                    const std::vector<Mark>& marks = {});

}  // namespace custash::replay
