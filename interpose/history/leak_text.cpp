// SPDX-License-Identifier: MIT
#include "interpose/history/leak_text.hpp"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <map>

namespace custash::leaks {
namespace {

// "12.2 MiB (12782912 bytes) in 203 blocks"
std::string amount(std::int64_t bytes, std::int64_t blocks) {
  constexpr std::int64_t kKiB = 1024;
  std::string out = size_text(bytes);
  if (bytes >= kKiB) out += " (" + std::to_string(bytes) + " bytes)";
  return out + " in " + count_text(blocks, "block");
}

std::string growth(const Site& site) {
  const std::int64_t freed = site.allocations - site.blocks;
  return " (growing: " + count_text(site.allocations, "allocation") + ", " +
         size_text(site.allocated_bytes) + ", " +
         (freed == 0 ? "none" : std::to_string(freed)) + " freed)";
}

std::vector<Site> merged(const std::vector<Site>& sites) {
  std::map<std::pair<std::string, std::vector<std::string>>, Site> all;
  for (const Site& site : sites) {
    const auto [it, fresh] = all.try_emplace({site.where, site.frames}, site);
    if (fresh) continue;
    Site& sum = it->second;
    sum.bytes = plus(sum.bytes, site.bytes);
    sum.blocks = plus(sum.blocks, site.blocks);
    sum.allocations = plus(sum.allocations, site.allocations);
    sum.allocated_bytes = plus(sum.allocated_bytes, site.allocated_bytes);
    sum.growing |= site.growing;
  }
  std::vector<Site> out;
  for (auto& [key, site] : all)
    if (site.blocks != 0) out.push_back(std::move(site));
  std::stable_sort(
      out.begin(), out.end(), [](const Site& a, const Site& b) { return a.bytes > b.bytes; });
  return out;
}

}  // namespace

std::int64_t plus(std::int64_t a, std::int64_t b) {
  constexpr std::int64_t kMost = std::int64_t{1} << 60;
  return std::clamp(a + b, -kMost, kMost);
}

std::string size_text(std::int64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  constexpr double kFourDigits = 1000;
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= kFourDigits && unit + 1 < std::size(kUnits); ++unit)
    value /= 1024;
  const int digits = unit == 0 || value >= 100 ? 0 : value >= 10 ? 1 : 2;
  char text[32];
  std::snprintf(text, sizeof text, "%.*f %s", digits, value, kUnits[unit]);
  return text;
}

std::string count_text(std::int64_t count, const char* noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

std::string where_text(std::size_t memory, int device) {
  constexpr const char* kMemory[] = {
      "on device ", "pinned, of device ", "of the driver, on device "};
  return kMemory[memory] + std::to_string(device);
}

std::string text(const std::string& title,
                 const std::vector<Site>& sites,
                 std::size_t most,
                 const Older& older) {
  const std::vector<Site> sorted = merged(sites);
  std::int64_t bytes = 0;
  std::int64_t blocks = 0;
  for (const Site& site : sorted) {
    bytes = plus(bytes, site.bytes);
    blocks = plus(blocks, site.blocks);
  }
  const auto count = static_cast<std::int64_t>(sorted.size());
  std::string out = "custash: " + title + ": ";
  if (count != 0)
    out += amount(bytes, blocks) + ", from " + count_text(count, "call site");
  else
    out += older.blocks > 0 ? "0 B" : "nothing";
  if (older.blocks > 0)
    out += " since history was switched on; " + size_text(older.bytes) + " in " +
           count_text(older.blocks, "block") +
           (older.blocks == 1 ? " is older and has" : " are older and have") +
           " no call site (custash run --leaks knows all)";
  out += "\n";
  for (std::size_t i = 0; i < std::min(most, sorted.size()); ++i) {
    const Site& site = sorted[i];
    out += "custash:   " + amount(site.bytes, site.blocks) + " " + site.where +
           (site.growing ? growth(site) : "") + ", allocated by\n";
    if (site.frames.empty()) out += "custash:     an unknown call site\n";
    for (const std::string& frame : site.frames)
      out += "custash:     " + frame + "\n";
  }
  if (sorted.size() > most) {
    const auto left = count - static_cast<std::int64_t>(most);
    out += "custash:   and " + count_text(left, "more call site") + "\n";
  }
  return out;
}

}  // namespace custash::leaks
