// SPDX-License-Identifier: MIT
// `custash run --record`: where the library is told to write, and what becomes of it once the
// program has ended.
#pragma once

#include <string>
#include <vector>

namespace custash {

// Where the library writes for a recording that is to be called `path`: an .xz is packed at the
// end.
std::string recording_place(const std::string& path);

// Throws where no file can be written, long before it is: no folder, no right, a folder of that
// name.
void require_place(const std::string& path);

// Throws where something else than a recording would be replaced.
void require_no_other_file(const std::string& path);

// Runs the program and waits for it, then ends the recordings: PATH, replaced if it was there,
// by the process that used CUDA first, and PATH.PID by each further one. The exit code is the
// program's; where a signal ended it, the same signal ends us.
int run_recorded(const std::vector<std::string>& program, const std::string& path);

}  // namespace custash
