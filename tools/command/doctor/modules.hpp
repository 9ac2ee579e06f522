// SPDX-License-Identifier: MIT
// The modules of a program or a process: how custash stands before them, and by which way each
// comes to CUDA. Only files are read.
#pragma once

#include "tools/command/doctor/findings.hpp"

#include <string>
#include <vector>

namespace custash::doctor {

struct Module {
  std::string path;  // as it is called
  std::string file;  // where it can be read
};

// Linked: into one of the modules. Without dlsym: that one does not show custash's dlsym, so
// that others' look-ups pass by.
enum class Form { None, Preloaded, Linked, LinkedWithoutDlsym };

// A module that is custash, or holds it, gets a finding.
Form form_of(const std::vector<Module>& modules, Findings* findings);

// A finding for each module that comes to CUDA; false where there is none. `driver`: this
// machine's, empty where it is not known.
bool examine_modules(const std::vector<Module>& modules,
                     Form form,
                     const std::string& driver,
                     Findings* findings);

}  // namespace custash::doctor
