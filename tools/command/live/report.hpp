// SPDX-License-Identifier: MIT
// What `custash top` shows of two looks at the processes, as a table or JSON. Pure.
#pragma once

#include "tools/command/live/processes.hpp"

#include <string>
#include <vector>

namespace custash::live {

struct Look {
  std::int64_t at = 0;  // monotonic, nanoseconds
  std::vector<Seen> seen;
};

// Rates are between the two looks at a process; of one that is new they are not told. `width`
// and `height` of the terminal: 0 is no limit.
std::string table_of(const Look& before,
                     const Look& now,
                     std::size_t width,
                     std::size_t height);
std::string json_of(const Look& before, const Look& now);

}  // namespace custash::live
