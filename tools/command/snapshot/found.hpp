// SPDX-License-Identifier: MIT
// The findings of a guard report (docs/checking.md, guard_report:): its stacks, and the report
// as text. Members that are missing or of another type throw Json::exception. Pure.
#pragma once

#include "tools/command/snapshot/read.hpp"
#include "tools/command/snapshot/suppressions.hpp"

#include <functional>
#include <string>
#include <vector>

namespace custash::snapshot {

// The stacks of all findings; each is a list of places in its finding's "frames".
void for_each_stack(Json* report, const std::function<void(Json* finding, Json* stack)>& look);

// Throws Json::exception where there is no such frame.
const Json& frame_at(const Json& finding, const Json& id);

// As text_of() has them.
std::vector<std::string> stack_text(const Json& finding, const Json& stack);

// Lines that begin with "custash: guard: ".
std::string findings_text(const Json& report);

// Takes out the findings that a suppression matches; how many.
std::size_t suppress(Json* report, const Suppressions& suppressions);

}  // namespace custash::snapshot
