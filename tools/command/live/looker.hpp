// SPDX-License-Identifier: MIT
// Looker: makes one Look after the other, and keeps what that needs.
#pragma once

#include "tools/command/live/look.hpp"

#include <chrono>
#include <memory>

namespace custash::live {

// Of a person who watches.
inline constexpr std::chrono::milliseconds kPatience{300};

class Looker {
 public:
  Looker() : nvml_(Nvml::open()) {}

  // A process that does not answer within `patience` is told from its page.
  Look look(std::chrono::milliseconds patience);

 private:
  Watch watch_;
  std::unique_ptr<Nvml> nvml_;
};

}  // namespace custash::live
