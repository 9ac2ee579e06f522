// SPDX-License-Identifier: MIT
#include "interpose/history/ledger_reading.hpp"

#include "interpose/history/ledger.hpp"

#include <algorithm>

namespace custash::ledger {
namespace {

using history::Event;
using history::Site;

template <typename Row>
std::vector<Row> rows_of(Rows<Row>& rows) {
  return {rows.begin(), rows.end()};
}

// Oldest first. In a full ring the process may have been stopped while it overwrote the oldest
// event.
std::vector<Event> in_order(Copy& copy) {
  std::vector<Event>& ring = copy.events;
  const bool full = !ring.empty() && ring.size() >= copy.head.capacity;
  if (full && copy.head.oldest < ring.size())
    std::rotate(
        ring.begin(), ring.begin() + static_cast<std::ptrdiff_t>(copy.head.oldest), ring.end());
  if (full && !copy.whole) ring.erase(ring.begin());
  return std::move(ring);
}

void check_stacks(Copy* copy) {
  std::uint64_t before = 0;
  std::size_t good = 0;
  for (const std::uint64_t end : copy->ends) {
    if (end < before || end > copy->words.size()) break;
    before = end;
    ++good;
  }
  copy->ends.resize(good);
}

void check_stack(const Copy& copy, stacks::Id* stack) {
  if (*stack >= copy.ends.size()) *stack = stacks::kNone;
}

template <typename Enum>
bool is_one(Enum value, Enum last) {
  return static_cast<unsigned>(value) <= static_cast<unsigned>(last);
}

// Drops rows that a stopped process left incomplete. A site's counts are recomputed from its
// blocks.
void check(Copy* copy) {
  std::erase_if(copy->events, [&](Event& event) {
    check_stack(*copy, &event.stack);
    check_stack(*copy, &event.freed_by);
    return !is_one(event.action, history::Action::Oom) ||
           !is_one(event.memory, observe::MemoryKind::Other) || event.device >= kDevices;
  });
  for (Site& site : copy->sites) {
    check_stack(*copy, &site.stack);
    if (site.device < 0 || site.device >= static_cast<int>(kDevices)) site.device = 0;
    if (!is_one(site.memory, observe::MemoryKind::Other))
      site.memory = observe::MemoryKind::Other;
    site.stretch = std::min(site.stretch, Site::kStretches - 1);
  }
  copy->head.stretch = std::min<std::uint64_t>(copy->head.stretch, Site::kStretches - 1);
  std::erase_if(copy->live, [&](const LiveRow& row) {
    return row.address == 0 || row.site >= copy->sites.size();
  });
  for (Site& site : copy->sites)
    site.blocks = site.bytes = 0;
  for (const LiveRow& row : copy->live) {
    Site& site = copy->sites[row.site];
    ++site.blocks;
    site.bytes += static_cast<std::int64_t>(row.bytes);
  }
}

}  // namespace

Copy copy_of(Book& book, history::Events events) {
  Copy copy;
  copy.head = *book.head;
  if (events == history::Events::With) copy.events = rows_of(book.events);
  copy.sites = rows_of(book.sites);
  copy.live = rows_of(book.live);
  copy.words = rows_of(book.words);
  copy.ends = rows_of(book.ends);
  return copy;
}

history::Reading reading_of(Copy copy) {
  history::Reading out;
  out.events = in_order(copy);
  copy.events = std::move(out.events);
  check_stacks(&copy);
  check(&copy);
  const Header& head = copy.head;
  out.on = head.history_on != 0;
  out.capacity = head.capacity;
  out.depth = head.depth;
  out.since = head.since;
  out.events = std::move(copy.events);
  out.events_seen = std::max<std::uint64_t>(head.events_seen, out.events.size());
  for (Site& site : copy.sites) {
    history::catch_up(head, site);
    site.growing = history::grows(head, site);
  }
  for (const LiveRow& row : copy.live)
    out.live.emplace_back(row.address, history::LiveBlock{row.bytes, row.site, row.since});
  out.sites = std::move(copy.sites);
  out.devices.assign(std::begin(head.tracks), std::end(head.tracks));
  while (!out.devices.empty() && out.devices.back().peaks == 0)
    out.devices.pop_back();
  std::uint64_t begin = 0;
  for (const std::uint64_t end : copy.ends) {
    out.stacks.emplace_back(copy.words.begin() + static_cast<std::ptrdiff_t>(begin),
                            copy.words.begin() + static_cast<std::ptrdiff_t>(end));
    begin = end;
  }
  out.stacks_lost = head.stacks_lost;
  return out;
}

}  // namespace custash::ledger
