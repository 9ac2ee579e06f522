// SPDX-License-Identifier: MIT
// Gives the frames of a snapshot functions, files and lines. Reads the files of the program
// that was recorded, where they are still those that ran; no state.
#pragma once

#include "tools/command/names/debuginfod.hpp"
#include "tools/command/snapshot/read.hpp"

namespace custash::snapshot {

// An inlined function becomes a frame of its own; the innermost frames of a linked-in CUDA
// runtime go. What has a file already stays as it is, so that a snapshot may be named again.
// False where libdw cannot be opened and frames were left without a line for that.
[[nodiscard]] bool name_frames(Json* snapshot, names::Servers servers);

// The same of a guard report. A call by a runtime that is linked in gets that one's name.
[[nodiscard]] bool name_findings(Json* report, names::Servers servers);

// Says once on standard error that libdw is missing, unless `complete`.
void tell_of_libdw(bool complete);

}  // namespace custash::snapshot
