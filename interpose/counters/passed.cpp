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
  return remove(kind, object);
}

std::optional<PassedObject> PassedTable::remove(Kind kind, std::uint64_t object) {
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

std::optional<EndedObject> PassedTable::ended_at(std::uint64_t address) noexcept {
  const RankedLock lock(mutex_);
  for (const Kind kind : {Kind::Pitched, Kind::Managed, Kind::Plain})
    if (const auto what = remove(kind, address)) return EndedObject{kind, address, *what};
  return std::nullopt;
}

Ended PassedTable::context_ended(CUcontext context) noexcept {
  Ended out;
  const RankedLock lock(mutex_);
  for (auto at = objects_.begin(); at != objects_.end();) {
    const auto here = at++;
    if (here->second.context != context || here->first.first == Kind::Handle) continue;
    quietly([&] { out.push_back({here->first.first, here->first.second, here->second}); });
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

void PassedTable::measured(Kind kind, int device, Bytes bytes) noexcept {
  const auto number = static_cast<std::uint64_t>(device);
  if (bytes == 0)
    (void)ended(kind, number);
  else
    back(kind, number, {.bytes = bytes, .device = device});
}

OnDevice PassedTable::live_on(int device) noexcept {
  OnDevice sum;
  const RankedLock lock(mutex_);
  for (const auto& [key, object] : objects_) {
    // Managed memory lies anywhere, and NVML counts it for no process.
    if (object.device != device || key.first == Kind::Managed) continue;
    (key.first == Kind::Imported ? sum.imported : sum.bytes) += object.bytes;
  }
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
