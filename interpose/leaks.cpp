// SPDX-License-Identifier: MIT
#include "interpose/leaks.hpp"

#include "interpose/history.hpp"
#include "interpose/printable.hpp"
#include "interpose/symbols.hpp"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <vector>

namespace custash::leaks {
namespace {

constexpr std::size_t kMostSites = 20;
constexpr std::size_t kMostFrames = 8;

std::string amount(std::int64_t bytes, std::int64_t blocks) {
  constexpr double kMiB = 1024.0 * 1024.0;
  char text[96];
  std::snprintf(text,
                sizeof text,
                "%" PRId64 " bytes (%.1f MiB) in %" PRId64 " block%s",
                bytes,
                static_cast<double>(bytes) / kMiB,
                blocks,
                blocks == 1 ? "" : "s");
  return text;
}

std::string frame_text(const Frame& frame) {
  char offset[32];
  std::snprintf(offset, sizeof offset, "+0x%" PRIx64, frame.offset);
  const std::string name = printable(frame.name);
  if (!frame.file.empty())
    return name + " (" + printable(frame.file) + ":" + std::to_string(frame.line) + ")";
  return (name.empty() ? "?" : name) + " (" + printable(frame.module) + offset + ")";
}

std::string where(const history::Site& site) {
  constexpr const char* kMemory[] = {
      "on device ", "pinned, of device ", "of the driver, on device "};
  return kMemory[static_cast<std::size_t>(site.memory)] + std::to_string(site.device);
}

void add_site(std::string& out,
              const history::Site& site,
              const history::Reading& history,
              Symbols& symbols) {
  out += "custash:   " + amount(site.bytes, site.blocks) + " " + where(site) +
         (site.growing ? ", more and more of it" : "") + ", allocated by\n";
  std::vector<Symbols::Id> stack;
  if (site.stack != stacks::kNone) stack = symbols.frames_of(history.stacks[site.stack]);
  if (stack.empty()) out += "custash:     an unknown call site\n";
  for (std::size_t i = 0; i < std::min(stack.size(), kMostFrames); ++i)
    out += "custash:     " + frame_text(symbols.frames()[stack[i]]) + "\n";
}

}  // namespace

std::string text(const char* title) {
  history::Reading history = history::read(history::Events::Without);
  std::vector<history::Site>& sites = history.sites;
  if (!history.on && sites.empty())
    return std::string("custash: ") + title +
           ": not known, history is off (custash snapshot --history PID, custash_history() and "
           "the option history: switch it on)\n";
  std::erase_if(sites, [](const history::Site& site) { return site.blocks == 0; });
  std::stable_sort(
      sites.begin(), sites.end(), [](const history::Site& a, const history::Site& b) {
        return a.bytes > b.bytes;
      });
  std::int64_t bytes = 0;
  std::int64_t blocks = 0;
  for (const history::Site& site : sites) {
    bytes += site.bytes;
    blocks += site.blocks;
  }
  std::string out = std::string("custash: ") + title + ": " +
                    (blocks == 0 ? "nothing" : amount(bytes, blocks));
  if (blocks != 0)
    out += ", from " + std::to_string(sites.size()) + " place" + (sites.size() == 1 ? "" : "s");
  out += "\n";
  Symbols symbols;
  for (std::size_t i = 0; i < std::min(sites.size(), kMostSites); ++i)
    add_site(out, sites[i], history, symbols);
  if (sites.size() > kMostSites)
    out += "custash:   and " + std::to_string(sites.size() - kMostSites) + " places more\n";
  return out;
}

}  // namespace custash::leaks
