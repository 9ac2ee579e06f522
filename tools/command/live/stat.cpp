// SPDX-License-Identifier: MIT
#include "tools/command/live/stat.hpp"

#include "interpose/counters/device_stats.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace custash::statistics {
namespace {

using nlohmann::ordered_json;

// The library may be older or newer than the command: a number that it lacks is 0.
std::int64_t number_at(const ordered_json& stats, const std::string& key) {
  return stats.value(key, std::int64_t{0});
}

custash_device_stats_t device_of(const ordered_json& all) {
  custash_device_stats_t out{};
  out.size = sizeof out;
  out.device = all.at("device").get<std::int64_t>();
  const ordered_json& stats = all.at("stats");
  auto* const bytes = reinterpret_cast<unsigned char*>(&out);
  for (const device_stats::CounterMember& member : device_stats::kCounterMembers) {
    auto* const counters = reinterpret_cast<custash_counter_t*>(bytes + member.offset);
    for (std::size_t pool = 0; pool < member.pools; ++pool) {
      std::string key = std::string(member.name) + ".";
      if (member.pools > 1) key += std::string(device_stats::kPoolNames[pool]) + ".";
      counters[pool] = {number_at(stats, key + "current"),
                        number_at(stats, key + "peak"),
                        number_at(stats, key + "allocated"),
                        number_at(stats, key + "freed")};
    }
  }
  for (const device_stats::NumberMember& member : device_stats::kNumberMembers)
    *reinterpret_cast<std::int64_t*>(bytes + member.offset) = number_at(stats, member.name);
  return out;
}

}  // namespace

std::vector<Statistics> read(std::string_view lines) {
  std::vector<Statistics> out;
  try {
    while (!lines.empty()) {
      const std::size_t end = std::min(lines.find('\n'), lines.size());
      ordered_json all = ordered_json::parse(lines.substr(0, end));
      const custash_device_stats_t device = device_of(all);
      out.push_back({device, std::move(all)});
      lines.remove_prefix(std::min(end + 1, lines.size()));
    }
  } catch (const ordered_json::exception&) {
    throw std::runtime_error("the process answered no statistics that this command can read");
  }
  return out;
}

}  // namespace custash::statistics
