// SPDX-License-Identifier: MIT
// What came of a program's run.
#pragma once

#include <string>
#include <vector>

#include <cuda.h>

namespace custash::property {

enum class Violation { None, Race, Hang, Code, Overlap, Leak, Statistics, LockHeld, Crash };

const char* name_of(Violation kind);

struct Outcome {
  Violation kind = Violation::None;
  std::string text;
  std::vector<CUresult> codes;  // of each command; success for those that did nothing
};

}  // namespace custash::property
