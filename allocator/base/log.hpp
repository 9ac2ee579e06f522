// SPDX-License-Identifier: MIT
// The only file that uses spdlog. Silent until open_log() is called with a level above Off; one
// line per event, key=value. Never called with a custash lock held.
#pragma once

#include <string_view>

namespace custash {

enum class LogLevel { Off, Error, Warn, Info, Debug };

// Takes one whole line at a time, the newline included, from one thread at a time.
using WriteLine = void(std::string_view line);

// Drops lines less urgent than `level` and passes the others to `write`.
void open_log(LogLevel level, WriteLine* write);

void log(LogLevel level, std::string_view line);

}  // namespace custash
