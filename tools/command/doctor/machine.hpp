// SPDX-License-Identifier: MIT
// What holds for every program on this machine: the environment, the system, the driver. Reads
// the environment and files of /proc and /sys; the driver is opened and initialised in this
// process.
#pragma once

#include "tools/command/doctor/findings.hpp"

#include <string>

namespace custash::doctor {

void examine_environment(Findings* findings);
void examine_system(Findings* findings);
void examine_driver(Findings* findings);

// The file of the driver that the loader finds; empty where there is none.
std::string driver_file();

}  // namespace custash::doctor
