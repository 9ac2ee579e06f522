// SPDX-License-Identifier: MIT

#include "interpose/history/history.hpp"
#include "interpose/history/leak_text.hpp"
#include "interpose/history/symbols.hpp"

#include <algorithm>

namespace custash::leaks {

namespace {

std::string text_of_reading(const char* title,
                            const history::Reading& history,
                            const Older& older) {
  if (!history.on && history.sites.empty())
    return std::string("custash: ") + title +
           ": not known, history is off (custash snapshot --history PID, custash_history_start() and "
           "the option history: switch it on)\n";
  constexpr std::size_t kMostSites = 20;
  Symbols symbols = symbols_here();
  std::vector<Site> sites;
  bool nameless = false;
  for (const history::Site& site : history.sites) {
    Site& out = sites.emplace_back();
    out.bytes = site.bytes;
    out.blocks = site.blocks;
    out.allocations = site.allocations;
    out.allocated_bytes = site.allocated_bytes;
    out.growing = site.growing;
    out.where = where_text(static_cast<std::size_t>(site.memory), site.device);
    if (site.stack == stacks::kNone) continue;
    for (const Symbols::Id frame : symbols.frames_of(history.stacks[site.stack]))
      out.frames.push_back(text_of(symbols.frames()[frame]));
    for (const std::string& frame : out.frames)
      nameless |= frame.find('(') == std::string::npos;
  }
  return text(title, sites, kMostSites, older) +
         (nameless ? "custash:   functions and lines: CUSTASH_CONF=snapshot:FILE.json, then "
                     "custash leaks FILE.json\n"
                   : "");
}

}  // namespace

std::string text(const char* title) {
  return text_of_reading(title, history::read(history::Events::Without), {});
}

std::string text_now(Allocator& core) {
  Older older;
  int devices = 0;
  if (core.driver().device_get_count(&devices) != CUDA_SUCCESS) devices = 0;
  for (int device = 0; device < devices; ++device) {
    const DeviceStats stats = core.stats(device);
    older.bytes += stats.requested_bytes[0].current;
    older.blocks += stats.allocation[0].current;
  }
  const history::Reading history = history::read(history::Events::Without);
  for (const history::Site& site : history.sites) {
    if (site.memory != observe::MemoryKind::Device) continue;
    older.bytes -= site.bytes;
    older.blocks -= site.blocks;
  }
  older.bytes = std::max<std::int64_t>(older.bytes, 0);
  return text_of_reading("allocated now", history, older);
}

}  // namespace custash::leaks
