// SPDX-License-Identifier: MIT
#include "interpose/leaks.hpp"

#include "interpose/history.hpp"
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
  if (!frame.file.empty())
    return frame.name + " (" + frame.file + ":" + std::to_string(frame.line) + ")";
  if (frame.name.empty()) return name_of(frame);
  return frame.name + " (" + name_of({frame.module, "", frame.offset, "", ""}) + ")";
}

std::string where(const history::Site& site) {
  constexpr const char* kMemory[] = {
      "on device ", "pinned, of device ", "of the driver, on device "};
  return kMemory[static_cast<std::size_t>(site.memory)] + std::to_string(site.device);
}

void add_site(std::string& out,
              const history::Site& site,
              const std::vector<Frame>& stack) {
  out += "custash:   " + amount(site.bytes, site.blocks) + " " + where(site) +
         (site.growing ? ", more and more of it" : "") + ", allocated by\n";
  if (stack.empty()) out += "custash:     an unknown call site\n";
  for (std::size_t i = 0; i < std::min(stack.size(), kMostFrames); ++i)
    out += "custash:     " + frame_text(stack[i]) + "\n";
}

}  // namespace

std::string text(const std::string& title,
                 const history::Reading& history,
                 const FramesOf& frames) {
  std::vector<history::Site> sites = history.sites;
  if (!history.on && sites.empty())
    return "custash: " + title +
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
  std::string out = "custash: " + title + ": " +
                    (blocks == 0 ? "nothing" : amount(bytes, blocks));
  if (blocks != 0)
    out += ", from " + std::to_string(sites.size()) + " place" + (sites.size() == 1 ? "" : "s");
  out += "\n";
  for (std::size_t i = 0; i < std::min(sites.size(), kMostSites); ++i)
    add_site(out,
             sites[i],
             sites[i].stack == stacks::kNone ? std::vector<Frame>() : frames(sites[i].stack));
  if (sites.size() > kMostSites)
    out += "custash:   and " + std::to_string(sites.size() - kMostSites) + " places more\n";
  return out;
}

}  // namespace custash::leaks
