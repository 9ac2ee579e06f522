// SPDX-License-Identifier: MIT
// What holds for one program, or for a process that runs: whether it can be or is preloaded,
// and by which hook each of its modules comes to CUDA. Nothing is run; the dynamic loader lists
// a program's libraries, /proc those of a process.
#pragma once

#include "tools/command/doctor/findings.hpp"

#include <string>

#include <sys/types.h>

namespace custash::doctor {

// 0, or the code with which custash run would end, and why.
int examine_program(const std::string& name, std::string* why, Findings* findings);

// Where there is none, or it is another user's, the finding says so.
void examine_process(pid_t process, Findings* findings);

}  // namespace custash::doctor
