// SPDX-License-Identifier: MIT
#include "interpose/observe/report_page.hpp"

#include "interpose/report_html.inc"

namespace custash {

std::string report_page(const std::string& json) {
  constexpr const char* kPlace = "@DATA@";
  std::string page;
  for (const char* piece : kReportHtml)
    page += piece;
  const std::size_t at = page.find(kPlace);
  return page.replace(at, 6, json);
}

}  // namespace custash
