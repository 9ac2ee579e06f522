// SPDX-License-Identifier: MIT
#include "tools/command/snapshot/report_page.hpp"

#include "tools/command/snapshot/page/report_html.inc"

namespace custash {

std::string report_page(const std::string& data) {
  constexpr std::string_view kPlace = "@DATA@";
  std::string page;
  for (const char* piece : kReportHtml)
    page += piece;
  return page.replace(page.find(kPlace), kPlace.size(), data);
}

}  // namespace custash
