// SPDX-License-Identifier: MIT
#include "interpose/hooks/handle_table.hpp"

#include "interpose/process/peer_clients.hpp"
#include "interpose/process/quietly.hpp"

#include <algorithm>
#include <cstddef>
#include <new>
#include <utility>

namespace custash {

HandleTable::Number HandleTable::made(Number by_driver,
                                      Bytes bytes,
                                      const CUmemAllocationProp& properties,
                                      unsigned long long flags) noexcept {
  Number number = by_driver;
  quietly([&] {
    const RankedLock lock(mutex_);
    // The driver issues the numbers of handles again that have slept.
    constexpr Number kNoneOfTheDriver = Number{1} << 62U;
    while (handles_.contains(number) && handles_[number].by_driver != by_driver)
      number = number < kNoneOfTheDriver ? number | kNoneOfTheDriver : number + 1;
    handles_[number] = {
        .bytes = bytes, .properties = properties, .flags = flags, .by_driver = by_driver};
    any_.store(true);
    count_strangers();
  });
  return number;
}

HandleTable::Number HandleTable::by_driver(Number number) noexcept {
  if (strangers_.load() == 0) return number;
  const RankedLock lock(mutex_);
  const auto found = handles_.find(number);
  return found == handles_.end() ? number : found->second.by_driver;
}

HandleTable::Number HandleTable::of_program(Number by_driver) noexcept {
  if (strangers_.load() == 0) return by_driver;
  const RankedLock lock(mutex_);
  for (const auto& [number, handle] : handles_)
    if (handle.by_driver == by_driver) return number;
  return by_driver;
}

bool HandleTable::is_taken(Number by_driver) noexcept {
  if (strangers_.load() == 0) return false;
  const RankedLock lock(mutex_);
  return handles_.contains(by_driver);
}

bool HandleTable::change(Number number, int references, int mappings) {
  const auto found = handles_.find(number);
  if (found == handles_.end()) return false;
  Handle& handle = found->second;
  handle.references += static_cast<std::uint32_t>(references);
  handle.mappings += static_cast<std::uint32_t>(mappings);
  if (handle.references != 0 || handle.mappings != 0) return false;
  handles_.erase(found);
  count_strangers();
  return true;
}

void HandleTable::count_strangers() {
  strangers_.store(static_cast<std::size_t>(
      std::count_if(handles_.begin(), handles_.end(), [](const auto& each) {
        return each.second.by_driver != each.first;
      })));
}

void HandleTable::retained(Number number) noexcept {
  const RankedLock lock(mutex_);
  const auto found = handles_.find(number);
  if (found != handles_.end()) found->second.stays = true;
  change(number, 1, 0);
}

std::optional<HandleTable::Handle> HandleTable::released(Number number) noexcept {
  const RankedLock lock(mutex_);
  const auto found = handles_.find(number);
  if (found == handles_.end()) return std::nullopt;
  const Handle before = found->second;
  change(number, -1, 0);
  return before;
}

void HandleTable::back(Number number, const Handle& as_before) noexcept {
  quietly([&] {
    const RankedLock lock(mutex_);
    handles_[number] = as_before;
    count_strangers();
  });
}

bool HandleTable::mapped(Address address, Bytes bytes, Bytes offset, Number number) noexcept {
  bool entered = false;
  quietly([&] {
    const RankedLock lock(mutex_);
    const auto handle = handles_.find(number);
    if (handle == handles_.end()) return;
    const bool whole = offset == 0 && bytes == handle->second.bytes;
    entered = mappings_.try_emplace(address, Mapping{number, bytes, whole, false, {}}).second;
    if (entered) change(number, 0, 1);
  });
  return entered;
}

std::vector<HandleTable::Number> HandleTable::unmapped(Address address, Bytes bytes) noexcept {
  std::vector<Number> ended;
  const RankedLock lock(mutex_);
  auto at = mappings_.lower_bound(address);
  while (at != mappings_.end() && at->first - address < bytes) {
    const Number number = at->second.number;
    if (change(number, 0, -1)) quietly([&] { ended.push_back(number); });
    at = mappings_.erase(at);
  }
  return ended;
}

// The mapping around the address, or the next one.
std::map<Address, HandleTable::Mapping>::iterator HandleTable::mapping_at(Address address) {
  auto at = mappings_.upper_bound(address);
  if (at != mappings_.begin() && address - std::prev(at)->first < std::prev(at)->second.bytes)
    --at;
  return at;
}

void HandleTable::accessed(Address address,
                           Bytes bytes,
                           const CUmemAccessDesc* access,
                           std::size_t count) noexcept {
  const RankedLock lock(mutex_);
  for (auto at = mapping_at(address);
       at != mappings_.end() && (at->first <= address || at->first - address < bytes);
       ++at) {
    Mapping& mapping = at->second;
    if (at->first < address || at->first + mapping.bytes > address + bytes) {
      mapping.whole = false;  // parts have different access
      continue;
    }
    bool noted = false;
    quietly([&] {
      for (const CUmemAccessDesc* each = access; each != access + count; ++each) {
        std::erase_if(mapping.access, [&](const CUmemAccessDesc& old) {
          return old.location.type == each->location.type &&
                 old.location.id == each->location.id;
        });
        if (each->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE) mapping.access.push_back(*each);
      }
      noted = true;
    });
    if (!noted) mapping.whole = false;
  }
}

void HandleTable::stays(Number number) noexcept {
  const RankedLock lock(mutex_);
  const auto found = handles_.find(number);
  if (found != handles_.end()) found->second.stays = true;
}

void HandleTable::stays_at(Address address, Bytes bytes) noexcept {
  const RankedLock lock(mutex_);
  for (auto at = mapping_at(address);
       at != mappings_.end() && (at->first <= address || at->first - address < bytes);
       ++at) {
    const auto found = handles_.find(at->second.number);
    if (found != handles_.end()) found->second.stays = true;
  }
}

bool HandleTable::is_asleep(Address address) noexcept {
  if (!any()) return false;
  const RankedLock lock(mutex_);
  const auto at = mapping_at(address);
  return at != mappings_.end() && at->first <= address && at->second.asleep;
}

// Custash makes the memory again as it was: all of it, at this address, for these devices.
bool HandleTable::may_leave(const Mapping& mapping, const Handle& handle) const {
  const CUmemLocation& home = handle.properties.location;
  bool writes = false;
  for (const CUmemAccessDesc& each : mapping.access) {
    if (each.location.type != CU_MEM_LOCATION_TYPE_DEVICE) return false;
    writes = writes ||
             (each.location.id == home.id && each.flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  }
  return writes && mapping.whole && handle.mappings == 1 && handle.references <= 1 &&
         !handle.stays && !all_stay_.load();
}

std::vector<MappedRange> HandleTable::may_leave(CUdevice device, SleepSums* sums) {
  std::vector<MappedRange> out;
  const bool cards = any() && peer_clients::in_use();
  const RankedLock lock(mutex_);
  Bytes rest = 0;
  for (const auto& [number, handle] : handles_)
    if (handle.properties.location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
        handle.properties.location.id == device)
      rest += handle.bytes;
  for (const auto& [address, mapping] : mappings_) {
    const auto found = handles_.find(mapping.number);
    if (found == handles_.end()) continue;
    const Handle& handle = found->second;
    if (handle.properties.location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        handle.properties.location.id != device)
      continue;
    if (mapping.asleep) {
      rest -= handle.bytes;
    } else if (may_leave(mapping, handle) &&
               !(cards && handle.properties.allocFlags.gpuDirectRDMACapable != 0)) {
      rest -= handle.bytes;
      out.push_back({address,
                     handle.bytes,
                     handle.by_driver,
                     handle.properties,
                     handle.flags,
                     mapping.access,
                     handle.references == 0});
    }
  }
  sums->mapped += rest;
  return out;
}

void HandleTable::left(const MappedRange& range) {
  const RankedLock lock(mutex_);
  Mapping& mapping = mappings_.at(range.address);
  mapping.asleep = true;
  handles_.at(mapping.number).by_driver = 0;
  count_strangers();
}

void HandleTable::returned(const MappedRange& range) {
  const RankedLock lock(mutex_);
  Mapping& mapping = mappings_.at(range.address);
  mapping.asleep = false;
  handles_.at(mapping.number).by_driver = range.handle;
  count_strangers();
}

HandleTable& handle_table() noexcept {
  // Never destroyed: programs free memory from static destructors.
  alignas(HandleTable) static std::byte place[sizeof(HandleTable)];
  static auto& made = *new (place) HandleTable;
  return made;
}

}  // namespace custash
