// SPDX-License-Identifier: MIT
#include "interpose/history/ledger.hpp"

#include <algorithm>
#include <bit>

namespace custash::history {
namespace {

// Half as many stretches, twice as long each.
void merge_stretches(ledger::Header& head, std::span<Site> sites) {
  constexpr std::size_t kHalf = Site::kStretches / 2;
  for (Site& site : sites) {
    for (; site.stretch + 1 < Site::kStretches;)
      site.low[++site.stretch] = site.bytes;
    for (std::size_t i = 0; i < kHalf; ++i)
      site.low[i] = std::min(site.low[2 * i], site.low[2 * i + 1]);
    site.stretch = kHalf - 1;
  }
  head.stretch_length *= 2;
  head.stretch = kHalf;
}

}  // namespace

void catch_up(const ledger::Header& head, Site& site) {
  const DeviceTrack& device = head.tracks[static_cast<std::size_t>(site.device)];
  if (site.seen_peak != device.peaks) {
    site.at_peak_bytes = site.bytes;
    site.seen_peak = device.peaks;
  }
  while (site.stretch < head.stretch)
    site.low[++site.stretch] = site.bytes;
}

void next_allocation(ledger::Header& head, std::span<Site> sites) {
  ++head.allocations;
  head.stretch = head.allocations / head.stretch_length;
  if (head.stretch >= Site::kStretches) merge_stretches(head, sites);
}

void change(ledger::Header& head, Site& site, std::int64_t bytes, int sign) {
  catch_up(head, site);
  site.bytes += sign * bytes;
  site.blocks += sign;
  std::int64_t& low = site.low[site.stretch];
  low = std::min(low, site.bytes);
  site.peak_bytes = std::max(site.peak_bytes, site.bytes);
  if (site.memory != observe::MemoryKind::Device) return;
  DeviceTrack& device = head.tracks[static_cast<std::size_t>(site.device)];
  device.bytes += sign * bytes;
  if (device.bytes > device.peak_bytes) {
    device.peak_bytes = device.bytes;
    ++device.peaks;
  }
}

void count_lifetime(ledger::Header& head, const Site& site, Nanoseconds age) {
  if (site.memory != observe::MemoryKind::Device) return;
  const int bucket =
      std::min(age <= 1 ? 0 : static_cast<int>(std::bit_width(age - 1)), kLifetimes - 1);
  ++head.tracks[static_cast<std::size_t>(site.device)]
        .lifetimes[static_cast<std::size_t>(bucket)];
}

bool grows(const ledger::Header& head, const Site& site) {
  constexpr std::size_t kLooked = 8;
  constexpr int kRises = 6;
  if (head.stretch < kLooked) return false;  // the last one is not over
  int rises = 0;
  for (std::size_t i = head.stretch - kLooked + 1; i < head.stretch; ++i) {
    if (site.low[i] < site.low[i - 1]) return false;
    rises += site.low[i] > site.low[i - 1] ? 1 : 0;
  }
  return rises >= kRises;
}

}  // namespace custash::history
