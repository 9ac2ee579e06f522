// SPDX-License-Identifier: MIT
// The lines that `custash run` says when the program has ended. No state.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace custash::run {

// "custash: TEXT" on standard error; no byte of it controls the terminal.
void tell(std::string_view text);

// As the user would type it: without this process's folder.
std::string shown(const std::string& path);

// "2,562".
std::string grouped(std::int64_t count);

// "2,562 allocations", "1 allocation".
std::string counted(std::int64_t count, const std::string& noun);

// "PATH written (394 KB, WHAT)".
std::string written(const std::string& path, std::uint64_t bytes, const std::string& what);

}  // namespace custash::run
