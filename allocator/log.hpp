// SPDX-License-Identifier: MIT
// The only door to spdlog. Silent until open_log() is called with a level above Off; one line
// an event, key=value. Never called with a lock of ours held. Rank 0.
#pragma once

#include <string>
#include <string_view>

namespace custash {

enum class LogLevel { Off, Error, Warn, Info, Debug };

// `file` empty: stderr. Lines less urgent than `level` are dropped. A file that cannot be
// opened falls back to stderr.
void open_log(LogLevel level, const std::string& file);

[[nodiscard]] bool log_enabled(LogLevel level);

void log(LogLevel level, std::string_view line);

}  // namespace custash
