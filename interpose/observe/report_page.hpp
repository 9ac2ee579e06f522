// SPDX-License-Identifier: MIT
// The report: report.html with a snapshot's JSON in it. The JSON must hold no '<'. Pure.
#pragma once

#include <string>

namespace custash {

std::string report_page(const std::string& json);

}  // namespace custash
