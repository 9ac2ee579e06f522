// SPDX-License-Identifier: MIT
#include "tools/replay/trace_builder.hpp"

#include <algorithm>

namespace custash::replay {
namespace {

// More than any device has, and sums of as many as a trace can hold still fit.
constexpr Bytes kLargestAllocation = Bytes{1} << 44;
// What allocates looks at each stream, so that more would take hours.
constexpr std::uint32_t kMostStreams = 4096;
constexpr const char* kTooManyStreams = "more than 4,096 streams";

}  // namespace

std::uint32_t TraceBuilder::stream_number(std::uint64_t stream) {
  const auto [it, fresh] = streams_.try_emplace(stream, trace_.streams + 1);
  if (fresh) ++trace_.streams;
  return it->second;
}

const char* TraceBuilder::add_alloc(Event event, std::uint64_t id) {
  if (event.bytes == 0) return "an allocation of no bytes";
  if (event.bytes > kLargestAllocation) return "an allocation larger than any device";
  if (is_live(id)) return "this id is allocated already";
  if (free_slots_.empty()) {
    event.slot = trace_.slots++;
  } else {
    event.slot = free_slots_.back();
    free_slots_.pop_back();
  }
  live_[id] = {event.slot, event.kind, event.bytes};
  Bytes& in_use = is_pinned(event.kind) ? pinned_in_use_ : in_use_;
  Bytes& peak = is_pinned(event.kind) ? trace_.pinned_peak : trace_.peak;
  in_use += event.bytes;
  peak = std::max(peak, in_use);
  trace_.events.push_back(event);
  return nullptr;
}

const char* TraceBuilder::add_free(Event event, std::uint64_t id) {
  const auto it = live_.find(id);
  if (it == live_.end()) return "a free of an id that is not allocated";
  if (is_pinned(it->second.kind) != is_pinned(event.kind))
    return "device memory freed as pinned memory, or the other way round";
  if (it->second.bytes != event.bytes) return "a free of another size than was allocated";
  event.slot = it->second.slot;
  (is_pinned(event.kind) ? pinned_in_use_ : in_use_) -= event.bytes;
  free_slots_.push_back(event.slot);
  live_.erase(it);
  trace_.events.push_back(event);
  return nullptr;
}

const char* TraceBuilder::alloc(Nanoseconds time, Kind kind, std::uint64_t id, Bytes bytes) {
  return add_alloc({time, bytes, 0, kNoStream, kind}, id);
}

const char* TraceBuilder::alloc_on(
    Nanoseconds time, Kind kind, std::uint64_t id, Bytes bytes, std::uint64_t stream) {
  const std::uint32_t number = stream_number(stream);
  return number > kMostStreams ? kTooManyStreams
                               : add_alloc({time, bytes, 0, number, kind}, id);
}

const char* TraceBuilder::free(Nanoseconds time, Kind kind, std::uint64_t id, Bytes bytes) {
  return add_free({time, bytes, 0, kNoStream, kind}, id);
}

const char* TraceBuilder::free_on(
    Nanoseconds time, Kind kind, std::uint64_t id, Bytes bytes, std::uint64_t stream) {
  const std::uint32_t number = stream_number(stream);
  return number > kMostStreams ? kTooManyStreams : add_free({time, bytes, 0, number, kind}, id);
}

}  // namespace custash::replay
