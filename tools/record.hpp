// SPDX-License-Identifier: MIT
// `custash run --record`: where the library is told to write, and what becomes of it once the
// program has ended.
#pragma once

#include <string>
#include <vector>

namespace custash {

// Where the library writes while the program runs: a random name beside `path`.
std::string recording_place(const std::string& path);

// Runs the program and waits for it, then ends the recordings at `place`: `path` gets that of the
// process that used CUDA first, and PATH.PID each further one. They replace what require_file()
// let pass. The exit code is the program's; where a signal ended it, the same signal ends us.
int run_recorded(const std::vector<std::string>& program,
                 const std::string& place,
                 const std::string& path,
                 bool force);

}  // namespace custash
