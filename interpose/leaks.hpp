// SPDX-License-Identifier: MIT
// What is allocated, by call site, as text. From a history; no state.
#pragma once

#include "interpose/history.hpp"
#include "interpose/symbols.hpp"

#include <functional>
#include <string>
#include <vector>

namespace custash::leaks {

inline constexpr const char* kAtExit = "still allocated at exit";

// Of this process. `title`: kAtExit, or another.
std::string text(const char* title);

// Of any history; `frames` tells the frames of a stack.
using FramesOf = std::function<std::vector<Frame>(stacks::Id)>;
std::string text(const std::string& title,
                 const history::Reading& history,
                 const FramesOf& frames);

}  // namespace custash::leaks
