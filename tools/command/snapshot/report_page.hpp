// SPDX-License-Identifier: MIT
// The report: the page of page/ with a snapshot in it. Pure.
#pragma once

#include <string>
#include <string_view>

namespace custash {

// Reports of older libraries hold a snapshot's JSON in such an element.
inline constexpr std::string_view kPlainDataBegin =
    R"(<script type="application/json" id="data">)";
inline constexpr std::string_view kDataEnd = "</script>";

// `data`: the elements that hold snapshots (packed.hpp) or findings. They must hold no '<'
// inside.
std::string report_page(const std::string& data);

}  // namespace custash

// ---- A guard report (docs/checking.md, guard_report:) as a page: findings.cpp. Reads the
// program's files for names.
namespace custash::snapshot {

bool is_guard_report(std::string_view bytes);

// `name` is for complaints. Throws BadSnapshot where the report is not whole. `complete`: as
// name_findings() returns it.
std::string findings_page(const std::string& name, std::string_view bytes, bool* complete);

}  // namespace custash::snapshot
