// SPDX-License-Identifier: MIT
// What a module takes from others that the known differences of docs/semantics.md may concern.
// Pure.
#pragma once

#include "tools/command/doctor/findings.hpp"

#include <string>
#include <string_view>

namespace custash::doctor {

// `file`: the module's bytes.
void examine_risks(const std::string& path, std::string_view file, Findings* findings);

}  // namespace custash::doctor
