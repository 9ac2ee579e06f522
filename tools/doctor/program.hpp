// SPDX-License-Identifier: MIT
// What holds for one program: whether it can be preloaded, and by which door each of its
// modules comes to CUDA. Nothing of it is run; the dynamic loader lists its libraries.
#pragma once

#include "tools/doctor/findings.hpp"

#include <string>

namespace custash::doctor {

// `name` as a shell would find it; a script stands for its interpreter. False: not found.
bool examine_program(const std::string& name, Findings* findings);

}  // namespace custash::doctor
