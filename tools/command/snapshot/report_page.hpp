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
