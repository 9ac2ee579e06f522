// SPDX-License-Identifier: MIT
// What holds for one program, or for a process that runs: whether it can be or is preloaded,
// and by which door each of its modules comes to CUDA. Nothing is run; the dynamic loader lists
// a program's libraries, /proc those of a process.
#pragma once

#include "tools/doctor/findings.hpp"

#include <string>

#include <sys/types.h>

namespace custash::doctor {

// `name` as a shell would find it; a script stands for its interpreter. False: not found.
bool examine_program(const std::string& name, Findings* findings);

// False: there is none, or it is another user's; the finding says which.
bool examine_process(pid_t process, Findings* findings);

// A module called `path`, to be read in `file`; true where it comes to CUDA.
bool examine_module(const std::string& path, const std::string& file, Findings* findings);

}  // namespace custash::doctor
