// SPDX-License-Identifier: MIT
// The report: the page of observe/report/ with a snapshot in it. Pure.
#pragma once

#include <string>
#include <string_view>

namespace custash {

// An element of the page that holds a snapshot's JSON. The JSON must hold no '<'.
inline constexpr std::string_view kPlainDataBegin =
    R"(<script type="application/json" id="data">)";
inline constexpr std::string_view kDataEnd = "</script>";

// `data`: such an element, or those of `custash report` (tools/command/snapshot/packed.hpp).
std::string report_page(const std::string& data);

// The same of one snapshot's JSON.
std::string report_page_of_json(const std::string& json);

}  // namespace custash
