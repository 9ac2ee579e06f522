// SPDX-License-Identifier: MIT
// A guard report (docs/checking.md, guard_report:) as a page. Reads the program's files for
// names.
#pragma once

#include <string>
#include <string_view>

namespace custash::snapshot {

bool is_guard_report(std::string_view bytes);

// `name` is for complaints. Throws BadSnapshot where the report is not whole. `complete`: as
// name_findings() returns it.
std::string findings_page(const std::string& name, std::string_view bytes, bool* complete);

}  // namespace custash::snapshot
