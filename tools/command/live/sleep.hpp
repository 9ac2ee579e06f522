// SPDX-License-Identifier: MIT
// The subcommands sleep and wake, and trim --deep: they ask all processes at once.
#pragma once

#include "tools/command/live/command.hpp"

namespace custash::live {

// The exit code. `command`: "sleep", "wake" or "deep_trim".
int run_sleep(std::string_view command, const CommandOptions& options);

}  // namespace custash::live
