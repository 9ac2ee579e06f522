// SPDX-License-Identifier: MIT
// A guard report (docs/guard.md, guard_report:) as a page. Pure.
#pragma once

#include <string>
#include <string_view>

namespace custash::snapshot {

bool is_guard_report(std::string_view bytes);

// `name` is for complaints. Throws BadSnapshot where the report is not whole.
std::string findings_page(const std::string& name, std::string_view bytes);

}  // namespace custash::snapshot
