// SPDX-License-Identifier: MIT
#include "tools/snapshot/sites.hpp"

#include "interpose/printable.hpp"
#include "tools/text.hpp"

#include <algorithm>
#include <cinttypes>
#include <cstdlib>

namespace custash::snapshot {
namespace {

// What a file claims may add up to more than there is room for.
std::int64_t plus(std::int64_t a, std::int64_t b) {
  constexpr std::int64_t kMost = std::int64_t{1} << 60;
  return std::clamp(a + b, -kMost, kMost);
}

constexpr const char* kUnknown = "    an unknown call site\n";

std::string frame_text(const Json& frame) {
  const std::string name = printable(frame.at("name").get<std::string>());
  const std::string file = printable(frame.at("file").get<std::string>());
  const std::string module = printable(frame.at("module").get<std::string>());
  if (!file.empty()) return name + " (" + file + ":" + frame.at("line").dump() + ")";
  // Addresses differ from run to run, places in a module do not.
  return (name.empty() ? "?" : name) + " (" + module.substr(module.rfind('/') + 1) + "+" +
         frame.at("offset").dump() + ")";
}

std::string place_text(const Json& snapshot, const Json& site) {
  const auto stack = site.at("stack").get<std::int64_t>();
  std::string text;
  if (stack >= 0) {
    for (const Json& frame : snapshot.at("stacks").at(static_cast<std::size_t>(stack)))
      text += "    " + frame_text(snapshot.at("frames").at(frame.get<std::size_t>())) + "\n";
  }
  if (text.empty()) text = kUnknown;
  const auto memory = site.at("memory").get<std::string>();
  return "  on device " + site.at("device").dump() + (memory == "device" ? "" : ", " + memory) +
         "\n" + text;
}

std::string mebibytes(std::int64_t bytes) {
  constexpr double kMiB = 1024.0 * 1024.0;
  std::string text;
  add(text, "%.1f MiB", static_cast<double>(bytes) / kMiB);
  return text;
}

}  // namespace

std::map<std::string, SiteSum> live_sites(const Json& snapshot) {
  std::map<std::string, SiteSum> out;
  for (const Json& site : snapshot.at("history").at("sites")) {
    const auto blocks = site.at("blocks").get<std::int64_t>();
    if (blocks == 0) continue;
    SiteSum& sum = out[place_text(snapshot, site)];
    sum.blocks = plus(sum.blocks, blocks);
    sum.bytes = plus(sum.bytes, site.at("bytes").get<std::int64_t>());
    sum.growing |= site.at("growing").get<bool>();
  }
  return out;
}

std::vector<SiteChange> changes(const Json& before, const Json& after) {
  std::map<std::string, SiteChange> all;
  for (const auto& [place, sum] : live_sites(before))
    all[place].before = sum;
  for (const auto& [place, sum] : live_sites(after))
    all[place].after = sum;
  std::vector<SiteChange> out;
  for (auto& [place, change] : all) {
    change.place = place;
    if (change.before.bytes != change.after.bytes ||
        change.before.blocks != change.after.blocks)
      out.push_back(change);
  }
  std::stable_sort(out.begin(), out.end(), [](const SiteChange& a, const SiteChange& b) {
    return std::abs(a.after.bytes - a.before.bytes) > std::abs(b.after.bytes - b.before.bytes);
  });
  return out;
}

std::string as_text(const std::vector<SiteChange>& changes, unsigned most) {
  std::string out;
  std::int64_t sum = 0;
  for (const SiteChange& change : changes)
    sum = plus(sum, plus(change.after.bytes, -change.before.bytes));
  add(out,
      "%+" PRId64 " bytes (%s) at %zu call sites\n",
      sum,
      mebibytes(sum).c_str(),
      changes.size());
  for (std::size_t i = 0; i < std::min<std::size_t>(most, changes.size()); ++i) {
    const SiteChange& change = changes[i];
    const std::int64_t bytes = change.after.bytes - change.before.bytes;
    add(out,
        "\n%+" PRId64 " bytes (%s), %+" PRId64 " blocks\n",
        bytes,
        mebibytes(bytes).c_str(),
        change.after.blocks - change.before.blocks);
    out += change.place;
  }
  if (changes.size() > most)
    add(out, "\nand %zu call sites more (--most N)\n", changes.size() - most);
  return out;
}

std::string as_json(const std::vector<SiteChange>& changes) {
  Json out = Json::array();
  for (const SiteChange& change : changes) {
    out.push_back({{"place", change.place},
                   {"blocks_before", change.before.blocks},
                   {"blocks_after", change.after.blocks},
                   {"bytes_before", change.before.bytes},
                   {"bytes_after", change.after.bytes}});
  }
  return out.dump(1, ' ', true, Json::error_handler_t::replace) + "\n";
}

std::string leaks_text(const Json& snapshot, unsigned most) {
  const auto sites = live_sites(snapshot);
  std::vector<std::pair<std::string, SiteSum>> sorted(sites.begin(), sites.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
    return a.second.bytes > b.second.bytes;
  });
  std::int64_t bytes = 0;
  std::int64_t blocks = 0;
  for (const auto& [place, sum] : sorted) {
    bytes = plus(bytes, sum.bytes);
    blocks = plus(blocks, sum.blocks);
  }
  std::string out;
  add(out,
      "%" PRId64 " bytes (%s) in %" PRId64 " blocks, from %zu call sites\n",
      bytes,
      mebibytes(bytes).c_str(),
      blocks,
      sorted.size());
  for (std::size_t i = 0; i < std::min<std::size_t>(most, sorted.size()); ++i) {
    const SiteSum& sum = sorted[i].second;
    add(out,
        "\n%" PRId64 " bytes (%s) in %" PRId64 " blocks%s\n",
        sum.bytes,
        mebibytes(sum.bytes).c_str(),
        sum.blocks,
        sum.growing ? ", more and more of it" : "");
    out += sorted[i].first;
  }
  if (sorted.size() > most)
    add(out, "\nand %zu call sites more (--most N)\n", sorted.size() - most);
  return out;
}

}  // namespace custash::snapshot
