// SPDX-License-Identifier: MIT
// `custash run --record`: where the library writes, and what becomes of it once the
// program has ended.
#pragma once

#include <string>

namespace custash {

// Where the library writes while the program runs: a random name beside `path`.
std::string recording_place(const std::string& path);

// Removes what killed runs over the same file left: recordings that no process writes any more.
void remove_left_recordings(const std::string& path);

// After the program's end: `path` gets the recording of the process that used CUDA first, and
// PATH.PID that of each further one. Prints a line for each. False where nothing was recorded.
bool end_recordings(const std::string& place, const std::string& path, bool force);

}  // namespace custash
