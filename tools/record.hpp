// SPDX-License-Identifier: MIT
// `custash run --record`: where the library is told to write, and what becomes of it once the
// program has ended.
#pragma once

#include <set>
#include <string>

namespace custash {

// Where the library writes for a recording that is to be called `path`: an .xz is packed at the
// end.
std::string recording_place(const std::string& path);

// Throws where no file can be written, long before it is: no folder, no right, a folder of that
// name.
void require_place(const std::string& path);

// Throws where something else than a recording would be replaced.
void require_no_other_file(const std::string& path);

// Before the program starts: an older recording goes. Gives what lies beside it already.
std::set<std::string> clear_recordings(const std::string& path);

// After its end: PATH, by the process that used CUDA first, and PATH.PID by each further one. Tells
// each in a line. False where nothing was recorded.
bool end_recordings(const std::string& path, const std::set<std::string>& before);

}  // namespace custash
