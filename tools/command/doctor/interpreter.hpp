// SPDX-License-Identifier: MIT
// What the kernel loads for a command: a script's interpreter, and theirs. Nothing is run.
#pragma once

#include "tools/command/doctor/findings.hpp"

#include <string>

namespace custash::doctor {

struct Loaded {
  std::string path;  // of the program that the loader gets
  int code = 0;      // not 0: it cannot be run, and custash run would end with this
  std::string why;
  bool known = true;  // false: a shell script or a shim, which decides by itself what it starts
};

// `name` as a shell would find it. Each script on the way gets a finding.
Loaded loaded_for(const std::string& name, Findings* findings);

}  // namespace custash::doctor
