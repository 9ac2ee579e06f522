// SPDX-License-Identifier: MIT
// The scenarios in which every driver call of the core is made to fail in turn.
#pragma once

#include "allocator/base/units.hpp"

#include <span>
#include <string_view>

namespace custash::property {

struct Scenario {
  std::string_view name;
  std::string_view script;  // script.hpp
  Bytes memory = 0;         // of the device; 0: plenty
};

std::span<const Scenario> scenarios();

}  // namespace custash::property
