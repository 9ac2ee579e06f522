// SPDX-License-Identifier: MIT
#include "interpose/observe/report_page.hpp"

#include "interpose/report_html.inc"

namespace custash {

std::string report_page(const std::string& data) {
  constexpr std::string_view kPlace = "@DATA@";
  std::string page;
  for (const char* piece : kReportHtml)
    page += piece;
  return page.replace(page.find(kPlace), kPlace.size(), data);
}

std::string report_page_of_json(const std::string& json) {
  std::string data(kPlainDataBegin);
  data += json;
  data += kDataEnd;
  return report_page(data);
}

}  // namespace custash
