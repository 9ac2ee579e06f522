// SPDX-License-Identifier: MIT
#include "interpose/observe/leaks.hpp"

#include "interpose/observe/history.hpp"
#include "interpose/observe/leak_text.hpp"
#include "interpose/observe/symbols.hpp"

namespace custash::leaks {

std::string text(const char* title) {
  const history::Reading history = history::read(history::Events::Without);
  if (!history.on && history.sites.empty())
    return std::string("custash: ") + title +
           ": not known, history is off (custash snapshot --history PID, custash_history_start() and "
           "the option history: switch it on)\n";
  constexpr std::size_t kMostSites = 20;
  Symbols symbols;
  std::vector<Site> sites;
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
  }
  return text(title, sites, kMostSites);
}

}  // namespace custash::leaks
