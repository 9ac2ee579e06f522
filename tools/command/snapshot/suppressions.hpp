// SPDX-License-Identifier: MIT
// Suppressions: call sites that reports leave out, from a file of the user's. Each line is a
// glob. It is compared with a frame's function, file, file:line and module (docs/checking.md).
#pragma once

#include "interpose/history/frame.hpp"

#include <string>
#include <vector>

namespace custash::snapshot {

class Suppressions {
 public:
  Suppressions() = default;                        // none
  explicit Suppressions(const std::string& path);  // throws std::runtime_error

  [[nodiscard]] bool empty() const { return globs_.empty(); }

  [[nodiscard]] bool match(const Frame& frame) const;

 private:
  std::vector<std::string> globs_;
};

}  // namespace custash::snapshot
