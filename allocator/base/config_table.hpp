// SPDX-License-Identifier: MIT
// The table of options, for their reader. No state.
#pragma once

#include "allocator/base/config.hpp"

namespace custash {

struct Option {
  OptionRow row;
  bool (*set)(Config&, std::string_view);  // false: the text is not one of the option's values
};

// Every option, in the order of docs/options.md.
std::span<const Option> option_table();

}  // namespace custash
