// SPDX-License-Identifier: MIT
// What the doctor found, and what to do about it; as text or JSON. Pure.
#pragma once

#include <string>
#include <vector>

namespace custash::doctor {

enum class Level { Ok, Note, Warning, Problem };

struct Finding {
  Level level = Level::Ok;
  std::string subject;  // "driver", "options", a path
  std::string what;
  std::string advice;  // one sentence; empty where nothing is to be done
};

using Findings = std::vector<Finding>;

bool any_problem(const Findings& findings);
std::string as_text(const Findings& findings, bool colours);
std::string as_json(const Findings& findings);

}  // namespace custash::doctor
