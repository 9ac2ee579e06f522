// SPDX-License-Identifier: MIT
#include "interpose/observe/passed.hpp"

#include <cstddef>
#include <new>

namespace custash::passed {
namespace {

constexpr std::size_t index(Kind kind) {
  return static_cast<std::size_t>(kind);
}

// Where the host has no memory for the table, an object is not counted as living.
template <typename Change>
void quietly(Change change) noexcept {
  try {
    change();
  } catch (...) {
  }
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

void PassedTable::began(Kind kind,
                        std::uint64_t object,
                        Bytes bytes,
                        CUcontext context) noexcept {
  count(kind, bytes);
  quietly([&] {
    const RankedLock lock(mutex_);
    add(kind, object, {bytes, context});
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

void PassedTable::context_ended(CUcontext context) noexcept {
  const RankedLock lock(mutex_);
  for (auto at = objects_.begin(); at != objects_.end();) {
    const auto here = at++;
    if (here->second.context == context && here->first.first != Kind::Handle) drop(here);
  }
}

void PassedTable::drop(Objects::iterator at) {
  const std::size_t kind = index(at->first.first);
  --live_[kind];
  live_bytes_[kind] -= at->second.bytes;
  objects_.erase(at);
}

void PassedTable::change(std::uint64_t handle, int references, int mappings) {
  const auto found = objects_.find({Kind::Handle, handle});
  if (found == objects_.end()) return;
  PassedObject& object = found->second;
  object.references += static_cast<std::uint32_t>(references);
  object.mappings += static_cast<std::uint32_t>(mappings);
  if (object.references == 0 && object.mappings == 0) drop(found);
}

void PassedTable::retained(std::uint64_t handle) noexcept {
  const RankedLock lock(mutex_);
  change(handle, 1, 0);
}

std::optional<PassedObject> PassedTable::released(std::uint64_t handle) noexcept {
  const RankedLock lock(mutex_);
  const auto found = objects_.find({Kind::Handle, handle});
  if (found == objects_.end()) return std::nullopt;
  const PassedObject before = found->second;
  change(handle, -1, 0);
  return before;
}

void PassedTable::mapped(Address address, std::uint64_t handle) noexcept {
  quietly([&] {
    const RankedLock lock(mutex_);
    if (objects_.find({Kind::Handle, handle}) == objects_.end()) return;
    if (mappings_.emplace(address, handle).second) change(handle, 0, 1);
  });
}

void PassedTable::unmapped(Address address, Bytes bytes) noexcept {
  const RankedLock lock(mutex_);
  auto at = mappings_.lower_bound(address);
  while (at != mappings_.end() && at->first - address < bytes) {
    change(at->second, 0, -1);
    at = mappings_.erase(at);
  }
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
