// SPDX-License-Identifier: MIT
#include "tools/command/compare/sides.hpp"

#include "tools/command/launch.hpp"

#include <cstdlib>
#include <filesystem>

namespace custash::compare {
namespace {

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

Environment without_custash(const std::string& library) {
  const std::string present = compose_preload(library, variable("LD_PRELOAD"));
  std::string kept;
  std::string_view rest = present;
  while (!rest.empty()) {
    const auto end = rest.find(':');
    const std::string item(rest.substr(0, end));
    const bool ours =
        std::filesystem::path(item).filename() == "libcustash.so" || item == library;
    if (!ours) kept += (kept.empty() ? "" : ":") + item;
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
  }
  return {kept, "enabled:false"};
}

Environment with_custash(const std::string& library, const std::string& conf) {
  return {compose_preload(library, variable("LD_PRELOAD")),
          join_conf({variable("CUSTASH_CONF"), conf})};
}

}  // namespace custash::compare
