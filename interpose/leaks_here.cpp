// SPDX-License-Identifier: MIT
// Of this process.
#include "interpose/leaks.hpp"

namespace custash::leaks {

std::string text(const char* title) {
  const history::Reading history = history::read(history::Events::Without);
  Symbols symbols;
  return text(title, history, [&](stacks::Id stack) {
    std::vector<Frame> frames;
    for (const Symbols::Id id : symbols.frames_of(history.stacks[stack]))
      frames.push_back(symbols.frames()[id]);
    return frames;
  });
}

}  // namespace custash::leaks
