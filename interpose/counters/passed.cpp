// SPDX-License-Identifier: MIT
#include "interpose/counters/passed.hpp"

#include "interpose/process/quietly.hpp"

#include <cstddef>
#include <new>

namespace custash::passed {
namespace {

constexpr std::size_t index(Kind kind) {
  return static_cast<std::size_t>(kind);
}

}  // namespace

// Order: none, the counts stand alone.
void PassedTable::count(Kind kind, Bytes bytes) noexcept {
  calls_[index(kind)].fetch_add(1, std::memory_order_relaxed);
  bytes_[index(kind)].fetch_add(bytes, std::memory_order_relaxed);
}

void PassedTable::add(Kind kind, std::uint64_t number, const PassedObject& object) {
  const auto found = objects_.find({kind, number});
  if (found != objects_.end()) drop(found);  // its end went unseen
  objects_.emplace(std::pair{kind, number}, object);
  ++live_[index(kind)];
  live_bytes_[index(kind)] += object.bytes;
}

void PassedTable::began(
    Kind kind, std::uint64_t object, Bytes bytes, CUcontext context, int device) noexcept {
  count(kind, bytes);
  quietly([&] {
    const RankedLock lock(mutex_);
    add(kind, object, {.bytes = bytes, .context = context, .device = device});
  });
}

std::optional<PassedObject> PassedTable::ended(Kind kind, std::uint64_t object) noexcept {
  const RankedLock lock(mutex_);
  const auto found = objects_.find({kind, object});
  if (found == objects_.end()) return std::nullopt;
  const PassedObject before = found->second;
  drop(found);
  return before;
}

void PassedTable::back(Kind kind,
                       std::uint64_t object,
                       const PassedObject& as_before) noexcept {
  quietly([&] {
    const RankedLock lock(mutex_);
    add(kind, object, as_before);
  });
}

Ended PassedTable::context_ended(CUcontext context) noexcept {
  Ended out;
  const RankedLock lock(mutex_);
  for (auto at = objects_.begin(); at != objects_.end();) {
    const auto here = at++;
    if (here->second.context != context || here->first.first == Kind::Handle) continue;
    quietly([&] { out.push_back(here->first); });
    drop(here);
  }
  return out;
}

void PassedTable::drop(Objects::iterator at) {
  const std::size_t kind = index(at->first.first);
  --live_[kind];
  live_bytes_[kind] -= at->second.bytes;
  objects_.erase(at);
}

bool PassedTable::change(std::uint64_t handle, int references, int mappings) {
  const auto found = objects_.find({Kind::Handle, handle});
  if (found == objects_.end()) return false;
  PassedObject& object = found->second;
  object.references += static_cast<std::uint32_t>(references);
  object.mappings += static_cast<std::uint32_t>(mappings);
  const bool ended = object.references == 0 && object.mappings == 0;
  if (ended) drop(found);
  return ended;
}

void PassedTable::retained(std::uint64_t handle) noexcept {
  const RankedLock lock(mutex_);
  const auto found = objects_.find({Kind::Handle, handle});
  if (found != objects_.end()) found->second.retained = true;
  change(handle, 1, 0);
}

void PassedTable::leaves(std::uint64_t handle) noexcept {
  const RankedLock lock(mutex_);
  const auto found = objects_.find({Kind::Handle, handle});
  if (found != objects_.end()) found->second.elsewhere = true;
}

void PassedTable::leaves_at(Address address, Bytes bytes) noexcept {
  const RankedLock lock(mutex_);
  auto at = mappings_.upper_bound(address);
  if (at != mappings_.begin()) --at;  // the mapping around the address, if any
  for (; at != mappings_.end() && (at->first <= address || at->first - address < bytes); ++at) {
    const auto found = objects_.find({Kind::Handle, at->second});
    if (found != objects_.end() &&
        (at->first >= address || address - at->first < found->second.bytes))
      found->second.elsewhere = true;
  }
}

std::optional<PassedObject> PassedTable::released(std::uint64_t handle) noexcept {
  const RankedLock lock(mutex_);
  const auto found = objects_.find({Kind::Handle, handle});
  if (found == objects_.end()) return std::nullopt;
  const PassedObject before = found->second;
  change(handle, -1, 0);
  return before;
}

bool PassedTable::mapped(Address address, std::uint64_t handle) noexcept {
  bool entered = false;
  quietly([&] {
    const RankedLock lock(mutex_);
    if (objects_.find({Kind::Handle, handle}) == objects_.end()) return;
    entered = mappings_.emplace(address, handle).second;
    if (entered) change(handle, 0, 1);
  });
  return entered;
}

Ended PassedTable::unmapped(Address address, Bytes bytes) noexcept {
  Ended out;
  const RankedLock lock(mutex_);
  auto at = mappings_.lower_bound(address);
  while (at != mappings_.end() && at->first - address < bytes) {
    if (change(at->second, 0, -1)) quietly([&] { out.emplace_back(Kind::Handle, at->second); });
    at = mappings_.erase(at);
  }
  return out;
}

Bytes PassedTable::live_on(int device) noexcept {
  Bytes sum = 0;
  const RankedLock lock(mutex_);
  for (const auto& [key, object] : objects_)
    if (object.device == device) sum += object.bytes;
  return sum;
}

PassedCounts PassedTable::read() noexcept {
  PassedCounts out{};
  const RankedLock lock(mutex_);
  for (std::size_t i = 0; i < kKinds; ++i)
    out[i] = {calls_[i].load(), bytes_[i].load(), live_[i], live_bytes_[i]};
  return out;
}

PassedTable& table() noexcept {
  // Never destroyed: programs free memory from static destructors.
  alignas(PassedTable) static std::byte place[sizeof(PassedTable)];
  static auto& made = *new (place) PassedTable;
  return made;
}

}  // namespace custash::passed
