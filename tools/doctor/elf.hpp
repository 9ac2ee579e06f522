// SPDX-License-Identifier: MIT
// What the dynamic section of a 64-bit ELF file says. Pure: works on the file's bytes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace custash::doctor {

// The names of DT_NEEDED, in order; empty where the bytes are no such file, or damaged.
std::vector<std::string> needed_of(std::string_view file);

}  // namespace custash::doctor
