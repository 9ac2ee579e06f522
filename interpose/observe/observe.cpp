// SPDX-License-Identifier: MIT
#include "interpose/observe/observe.hpp"

#include "allocator/base/thread.hpp"
#include "interpose/process/captures.hpp"

#include <array>
#include <bit>

namespace custash::observe {

constinit std::atomic<unsigned> watchers{0};

namespace {

constexpr unsigned kCounters = static_cast<unsigned>(Watcher::Counters);
constexpr std::size_t kWatchers = 7;

// Order: release and acquire; an observer is complete before its watcher begins.
constinit std::array<std::atomic<const Observer*>, kWatchers> observers{};

bool makes_node(const Stream& stream) {
  return stream.named && captures::under_way();
}

template <auto kFunction, typename... Args>
void tell_one(std::size_t number, bool node, const Args&... args) {
  const Observer* const observer = observers[number].load(std::memory_order_acquire);
  if (observer == nullptr || (node && !observer->hears_of_nodes)) return;
  if (auto* const function = observer->*kFunction) function(args...);
}

template <auto kFunction, typename... Args>
void tell(bool node, const Args&... args) {
  const unsigned on = watchers.load(std::memory_order_relaxed);
  if ((on & kCounters) != 0) tell_one<kFunction>(std::countr_zero(kCounters), node, args...);
  if ((on & ~kCounters) == 0) return;  // the counters call nothing that waits
  const CancellationOff off;
  for (std::size_t i = 0; i < kWatchers; ++i)
    if ((on & ~kCounters & 1U << i) != 0) tell_one<kFunction>(i, node, args...);
}

}  // namespace

void begin(Watcher watcher, const Observer* observer) noexcept {
  const auto bit = static_cast<unsigned>(watcher);
  observers[std::countr_zero(bit)].store(observer, std::memory_order_release);
  watchers.fetch_or(bit);
}

void end(Watcher watcher) noexcept {
  watchers.fetch_and(~static_cast<unsigned>(watcher));
}

void allocated(MemoryKind memory, Address address, Bytes bytes, Stream stream) noexcept {
  if (bytes != 0)
    tell<&Observer::allocated>(makes_node(stream), memory, address, bytes, stream);
}

void freed(MemoryKind memory, Address address, Stream stream) noexcept {
  if (address != 0) tell<&Observer::freed>(makes_node(stream), memory, address, stream);
}

void free_refused(Address address) noexcept {
  tell<&Observer::free_refused>(false, address);
}

void refused(MemoryKind memory, Bytes bytes, Stream stream) noexcept {
  const CancellationOff off;
  tell<&Observer::refused>(false, memory, bytes, stream);
}

}  // namespace custash::observe
