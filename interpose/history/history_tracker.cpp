// SPDX-License-Identifier: MIT
#include "interpose/history/history_tracker.hpp"

#include "interpose/history/ledger.hpp"
#include "interpose/history/python_frames.hpp"

#include <algorithm>

namespace custash::history {
namespace {

constexpr std::size_t kFirstStretch = 64;  // allocations

std::uint64_t hash_of(std::span<const stacks::Word> words) {
  std::uint64_t hash = words.size();
  for (const stacks::Word word : words) {
    hash = (hash ^ word) * 0x9fb21c651e98df25ULL;
    hash ^= hash >> 32U;
  }
  return hash;
}

}  // namespace

Tracker::Tracker(ledger::Book& book)
    : book_(book), head_(*book.head), live_(book.live), segments_(book.segments) {
  head_.since = ledger::clock_now();
  head_.stretch_length = kFirstStretch;
}

void Tracker::start(std::size_t events, unsigned depth) {
  mapped_ = {};  // what was unmapped meanwhile was not seen
  head_.depth = depth;
  if (events > head_.capacity) {
    std::rotate(book_.events.begin(), book_.events.begin() + head_.oldest, book_.events.end());
    head_.oldest = 0;
    head_.capacity = events;
  }
}

// The oldest one may be half overwritten when the process is killed: the reader leaves it out.
// Order: a count is released after the event that it counts.
void Tracker::add_event(const Event& event) {
  if (head_.capacity == 0) return;
  if (book_.events.size() < head_.capacity) {
    book_.events.push_back(event);
  } else {
    book_.events[head_.oldest] = event;
    const std::uint64_t next = head_.oldest + 1;
    std::atomic_ref(head_.oldest)
        .store(next == head_.capacity ? 0 : next, std::memory_order_release);
  }
  std::atomic_ref(head_.events_seen).store(head_.events_seen + 1, std::memory_order_release);
}

stacks::Id Tracker::add_stack(const stacks::Stack& stack) {
  const std::uint64_t hash = hash_of(stack.used());
  if (const auto known = stack_ids_.find(hash); known != stack_ids_.end()) return known->second;
  if (book_.ends.size() >= kMostStacks) {
    ++head_.stacks_lost;
    return stacks::kNone;
  }
  book_.words.append(stack.used().data(), stack.used().size());
  book_.ends.push_back(book_.words.size());
  const auto id = static_cast<stacks::Id>(book_.ends.size() - 1);
  stack_ids_.emplace(hash, id);
  return id;
}

std::uint32_t Tracker::site_for(stacks::Id stack,
                                std::uint16_t device,
                                observe::MemoryKind memory) {
  const std::uint64_t key = (std::uint64_t{stack} << 32U) | (std::uint64_t{device} << 8U) |
                            static_cast<std::uint64_t>(memory);
  const auto [it, fresh] =
      site_of_.try_emplace(key, static_cast<std::uint32_t>(book_.sites.size()));
  if (fresh) {
    Site site;
    site.stack = stack;
    site.device = device;
    site.memory = memory;
    book_.sites.push_back(site);
  }
  return it->second;
}

void Tracker::begin_life(Address address,
                         Bytes bytes,
                         stacks::Id stack,
                         std::uint16_t device,
                         observe::MemoryKind memory,
                         Nanoseconds now) {
  next_allocation(head_, {book_.sites.data(), book_.sites.size()});
  const std::uint32_t number = site_for(stack, device, memory);
  live_.add({address, bytes, now, number, 0});
  Site& site = book_.sites[number];
  ++site.allocations;
  site.allocated_bytes += static_cast<std::int64_t>(bytes);
  change(head_, site, static_cast<std::int64_t>(bytes), 1);
}

const Site* Tracker::end_life(Address address, Nanoseconds now, Bytes* bytes) {
  ledger::LiveRow live;
  if (!live_.remove(address, &live)) return nullptr;
  Site& site = book_.sites[live.site];
  change(head_, site, static_cast<std::int64_t>(live.bytes), -1);
  count_lifetime(head_, site, now > live.since ? now - live.since : 0);
  *bytes = live.bytes;
  return &site;
}

void Tracker::change_segments(const Event& call, CUmemGenericAllocationHandle handle) {
  const auto place = [&](Action action) {
    return [this, &call, action](Address address, Bytes bytes) {
      Event event = call;
      event.action = action;
      event.address = address;
      event.bytes = bytes;
      change_segment(event);
    };
  };
  const auto added = place(Action::SegmentMap);
  const auto removed = place(Action::SegmentUnmap);
  if (call.action == Action::SegmentMap) {
    mapped_.map(call.address, call.bytes, handle, added, removed);
  } else if (call.action != Action::SegmentUnmap ||
             !mapped_.unmap(call.address, call.bytes, added, removed)) {
    change_segment(call);
  }
}

void Tracker::change_segment(Event event) {
  ledger::SegmentRow known;
  const bool is_known = segments_.remove(event.address, &known);
  const bool pages = event.action == Action::SegmentMap;
  if (pages || event.action == Action::SegmentAlloc) {
    segments_.add({event.address, event.bytes, event.device, pages ? 1U : 0U});
  } else if (is_known) {
    event.device = static_cast<std::uint16_t>(known.device);
    if (event.bytes == 0) event.bytes = known.bytes;
  }
  add_event(event);
}

bool Tracker::describe_stacks() {
  if (described_ == book_.ends.size()) return false;
  bool known = true;
  bool python = false;
  const std::size_t from = described_ == 0 ? 0 : book_.ends[described_ - 1];
  for (std::size_t i = from; i < book_.words.size(); ++i) {
    const stacks::Word word = book_.words[i];
    if ((word & stacks::kPython) != 0) {
      python = true;
      continue;
    }
    const auto after = code_.upper_bound(word - 1);
    known = known && after != code_.begin() && word - 1 < std::prev(after)->second;
  }
  described_ = book_.ends.size();
  if (!python) return !known;
  for (const python_frames::Line& line : python_frames::codes_from(book_.codes.size())) {
    const ledger::TextPlace function = book_.add_text(line.function);
    book_.codes.push_back({function, book_.add_text(line.file)});
  }
  return !known;
}

void Tracker::add_modules(
    const std::vector<std::pair<ledger::ModuleRow, std::string>>& modules) {
  for (const auto& [module, texts] : modules) {
    if (!code_.try_emplace(module.begin, module.end).second) continue;
    ledger::ModuleRow row = module;
    row.path.begin += static_cast<std::uint32_t>(book_.texts.size());
    row.build_id.begin += static_cast<std::uint32_t>(book_.texts.size());
    (void)book_.add_text(texts);
    book_.modules.push_back(row);
  }
}

}  // namespace custash::history
