// SPDX-License-Identifier: MIT
// The only door to spdlog. Silent until open_log() is called with a level above Off; one line
// an event, key=value. Never called with a lock of ours held.
#pragma once

#include <string_view>

namespace custash {

enum class LogLevel { Off, Error, Warn, Info, Debug };

// Takes one whole line at a time, the newline included; one thread at a time.
using WriteLine = void(std::string_view line);

// Lines less urgent than `level` are dropped; `write` gets the others.
void open_log(LogLevel level, WriteLine* write);

[[nodiscard]] bool log_enabled(LogLevel level);

void log(LogLevel level, std::string_view line);

}  // namespace custash
