// SPDX-License-Identifier: MIT
#include "tools/command/snapshot/sites.hpp"

#include "tools/command/snapshot/forms.hpp"
#include "tools/text.hpp"

#include <algorithm>
#include <cinttypes>
#include <cstdlib>

namespace custash::snapshot {
namespace {

using leaks::plus;

std::vector<std::string> frames_of(const Json& snapshot, const Json& site) {
  std::vector<std::string> out;
  const auto stack = site.at("stack").get<std::int64_t>();
  if (stack < 0) return out;
  for (const Json& frame : snapshot.at("stacks").at(static_cast<std::size_t>(stack)))
    out.push_back(text_of(frame_of(snapshot.at("frames").at(frame.get<std::size_t>()))));
  return out;
}

std::string where_of(const Json& site) {
  const auto memory = site.at("memory").get<std::string>();
  const std::size_t number = memory == "device" ? 0 : memory == "pinned" ? 1 : 2;
  return leaks::where_text(number, site.at("device").get<int>());
}

// Addresses differ from run to run, places in a module do not.
std::string place_text(const Json& snapshot, const Json& site) {
  std::string text = "  " + where_of(site) + "\n";
  const std::vector<std::string> frames = frames_of(snapshot, site);
  for (const std::string& frame : frames)
    text += "    " + frame + "\n";
  return frames.empty() ? text + "    an unknown call site\n" : text;
}

std::string change_text(std::int64_t bytes) {
  constexpr std::int64_t kKiB = 1024;
  std::string out(bytes < 0 ? "-" : "+");
  out += leaks::size_text(std::abs(bytes));
  if (std::abs(bytes) >= kKiB) add(out, " (%+" PRId64 " bytes)", bytes);
  return out;
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
  if (changes.empty()) return "no change\n";
  std::int64_t sum = 0;
  for (const SiteChange& change : changes)
    sum = plus(sum, plus(change.after.bytes, -change.before.bytes));
  const auto count = static_cast<std::int64_t>(changes.size());
  std::string out = change_text(sum) + " at " + leaks::count_text(count, "call site") + "\n";
  for (std::size_t i = 0; i < std::min<std::size_t>(most, changes.size()); ++i) {
    const SiteChange& change = changes[i];
    const std::int64_t blocks = change.after.blocks - change.before.blocks;
    out += '\n';
    out += change_text(change.after.bytes - change.before.bytes);
    add(out, ", %+" PRId64 " block%s\n", blocks, std::abs(blocks) == 1 ? "" : "s");
    out += change.place;
  }
  if (changes.size() > most)
    out += "\nand " + leaks::count_text(count - most, "more call site") + " (--most N)\n";
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

std::size_t suppress_sites(Json* snapshot, const Suppressions& suppressions) {
  std::size_t live = 0;
  const auto is_suppressed = [&](const Json& site) {
    const auto stack = site.at("stack").get<std::int64_t>();
    if (stack < 0) return false;
    const Json& ids = snapshot->at("stacks").at(static_cast<std::size_t>(stack));
    const bool matched = std::any_of(ids.begin(), ids.end(), [&](const Json& id) {
      return suppressions.match(frame_of(snapshot->at("frames").at(id.get<std::size_t>())));
    });
    if (matched && site.at("blocks").get<std::int64_t>() != 0) ++live;
    return matched;
  };
  std::erase_if(snapshot->at("history").at("sites").get_ref<Json::array_t&>(), is_suppressed);
  return live;
}

leaks::Older older_of(const Json& snapshot) {
  leaks::Older out;
  for (const Json& device : snapshot.at("devices")) {
    const Json& stats = device.at("stats");
    const auto blocks = stats.find("allocation.all.current");
    if (blocks == stats.end()) return {};
    out.blocks = plus(out.blocks, blocks->get<std::int64_t>());
    out.bytes = plus(out.bytes, stats.at("requested_bytes.all.current").get<std::int64_t>());
  }
  for (const Json& site : snapshot.at("history").at("sites")) {
    if (site.at("memory") != "device") continue;
    out.blocks = plus(out.blocks, -site.at("blocks").get<std::int64_t>());
    out.bytes = plus(out.bytes, -site.at("bytes").get<std::int64_t>());
  }
  out.bytes = std::max<std::int64_t>(out.bytes, 0);
  return out;
}

std::string leaks_text(const Json& snapshot,
                       const std::string& title,
                       unsigned most,
                       const leaks::Older& older) {
  std::vector<leaks::Site> sites;
  for (const Json& site : snapshot.at("history").at("sites")) {
    const auto number = [&](const char* key) { return site.at(key).get<std::int64_t>(); };
    sites.push_back({number("bytes"),
                     number("blocks"),
                     number("allocations"),
                     number("allocated_bytes"),
                     site.at("growing").get<bool>(),
                     where_of(site),
                     frames_of(snapshot, site)});
  }
  return leaks::text(title, sites, most, older);
}

}  // namespace custash::snapshot
