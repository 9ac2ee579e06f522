// SPDX-License-Identifier: MIT
#include "tools/command/run/tell.hpp"

#include "interpose/process/printable.hpp"

#include <cstdio>
#include <filesystem>

namespace custash::run {

void tell(std::string_view text) {
  std::fputs(("custash: " + printable(text) + "\n").c_str(), stderr);
}

std::string shown(const std::string& path) {
  std::error_code error;
  const std::string here = std::filesystem::current_path(error).string() + "/";
  return path.rfind(here, 0) == 0 ? path.substr(here.size()) : path;
}

std::string grouped(std::int64_t count) {
  std::string text = std::to_string(count);
  const std::size_t first = count < 0 ? 1 : 0;
  for (std::size_t at = text.size(); at > first + 3; at -= 3)
    text.insert(at - 3, 1, ',');
  return text;
}

std::string counted(std::int64_t count, const std::string& noun) {
  return grouped(count) + " " + noun + (count == 1 ? "" : "s");
}

std::string written(const std::string& path, std::uint64_t bytes, const std::string& what) {
  constexpr std::uint64_t kKilo = 1000;
  std::string out = shown(path);
  out += " written (";
  if (bytes < kKilo)
    out += std::to_string(bytes) + " B, ";
  else if (bytes < kKilo * kKilo)
    out += std::to_string(bytes / kKilo) + " KB, ";
  else
    out += std::to_string(bytes / kKilo / kKilo) + " MB, ";
  return out + what + ")";
}

}  // namespace custash::run
