// SPDX-License-Identifier: MIT
#include "interpose/hooks/handle_table.hpp"

#include "interpose/process/peer_clients.hpp"
#include "interpose/process/quietly.hpp"

#include <algorithm>
#include <cstddef>
#include <new>
#include <utility>

namespace custash {

// The driver issues the numbers of handles again that have slept.
HandleTable::Number HandleTable::free_number(Number wanted) const {
  constexpr Number kNoneOfTheDriver = Number{1} << 62U;
  while (handles_.contains(wanted))
    wanted = wanted < kNoneOfTheDriver ? wanted | kNoneOfTheDriver : wanted + 1;
  return wanted;
}

void HandleTable::set_driver(Number number, Handle* handle, Number by_driver) {
  if (handle->by_driver != number) strangers_.fetch_sub(1);
  const auto old = by_driver_.find(handle->by_driver);
  if (old != by_driver_.end() && old->second == number) by_driver_.erase(old);
  handle->by_driver = by_driver;
  if (by_driver != number) strangers_.fetch_add(1);
  if (by_driver != 0) by_driver_[by_driver] = number;
}

void HandleTable::put(Number number, const Handle& handle) {
  Handle& put = handles_[number] = handle;
  put.by_driver = number;
  set_driver(number, &put, handle.by_driver);
}

HandleTable::Number HandleTable::made(Number by_driver,
                                      Bytes bytes,
                                      const CUmemAllocationProp& properties,
                                      unsigned long long flags) noexcept {
  Number number = by_driver;
  quietly([&] {
    const RankedLock lock(mutex_);
    number = free_number(by_driver);
    put(number,
        {.bytes = bytes, .properties = properties, .flags = flags, .by_driver = by_driver});
  });
  return number;
}

HandleTable::Number HandleTable::obtained(Number by_driver, CUdevice device) noexcept {
  Number number = by_driver;
  quietly([&] {
    const RankedLock lock(mutex_);
    if (const auto known = by_driver_.find(by_driver); known != by_driver_.end()) {
      number = known->second;
      handles_.at(number).stays = true;
      ++handles_.at(number).references;
      return;
    }
    number = free_number(by_driver);
    CUmemAllocationProp properties{};
    properties.location.id = device;
    put(number,
        {.properties = properties, .by_driver = by_driver, .stays = true, .counted = false});
  });
  return number;
}

HandleTable::Number HandleTable::by_driver(Number number) noexcept {
  if (strangers_.load() == 0) return number;
  const RankedLock lock(mutex_);
  const auto found = handles_.find(number);
  if (found != handles_.end()) return found->second.by_driver;
  return by_driver_.contains(number) ? 0 : number;
}

HandleTable::Number HandleTable::of_program(Number by_driver) noexcept {
  if (strangers_.load() == 0) return by_driver;
  const RankedLock lock(mutex_);
  const auto found = by_driver_.find(by_driver);
  return found == by_driver_.end() ? by_driver : found->second;
}

bool HandleTable::change(Number number, int references, int mappings) {
  const auto found = handles_.find(number);
  if (found == handles_.end()) return false;
  Handle& handle = found->second;
  if (references >= 0 || handle.references != 0)
    handle.references += static_cast<std::uint32_t>(references);
  if (mappings >= 0 || handle.mappings != 0)
    handle.mappings += static_cast<std::uint32_t>(mappings);
  if (handle.references != 0 || handle.mappings != 0) return false;
  set_driver(number, &handle, 0);
  strangers_.fetch_sub(1);  // what has no number is counted
  handles_.erase(found);
  return true;
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
  if (found == handles_.end() || found->second.references == 0) return std::nullopt;
  const Handle before = found->second;
  change(number, -1, 0);
  return before;
}

void HandleTable::back(Number number, const Handle& as_before) noexcept {
  quietly([&] {
    const RankedLock lock(mutex_);
    const auto found = handles_.find(number);
    if (found != handles_.end())
      ++found->second.references;
    else
      put(number, as_before);
  });
}

bool HandleTable::mapped(Address address, Bytes bytes, Bytes offset, Number number) noexcept {
  bool entered = false;
  bool known = false;
  quietly([&] {
    const RankedLock lock(mutex_);
    const auto handle = handles_.find(number);
    known = handle != handles_.end();
    if (!known) return;
    const bool whole = offset == 0 && bytes == handle->second.bytes;
    entered = mappings_.try_emplace(address, Mapping{number, bytes, whole, false, {}}).second;
    if (!entered) return;
    change(number, 0, 1);
    mapped_.store(true);
  });
  if (known && !entered) stays(number);  // who knows where it is mapped
  return entered;
}

std::optional<HandleTable::Handle> HandleTable::sized(Number number, Bytes bytes) noexcept {
  const RankedLock lock(mutex_);
  const auto found = handles_.find(number);
  if (found == handles_.end()) return std::nullopt;
  Handle& handle = found->second;
  if (handle.counted || handle.bytes != 0 || handle.properties.location.id < 0)
    return std::nullopt;
  handle.bytes = bytes;
  return handle;
}

HandleTable::Unmapped HandleTable::unmapped(Address address, Bytes bytes) noexcept {
  Unmapped out;
  const RankedLock lock(mutex_);
  auto at = mappings_.lower_bound(address);
  while (at != mappings_.end() && at->first - address < bytes) {
    const Number number = at->second.number;
    const auto handle = handles_.find(number);
    const bool last = handle != handles_.end() && handle->second.references == 0 &&
                      handle->second.mappings == 1;
    quietly([&] {
      out.mappings.emplace_back(*at);
      if (last) out.ended.emplace_back(*handle);
    });
    change(number, 0, -1);
    at = mappings_.erase(at);
  }
  mapped_.store(!mappings_.empty());
  return out;
}

void HandleTable::back(const Unmapped& as_before) noexcept {
  quietly([&] {
    const RankedLock lock(mutex_);
    for (const auto& [number, handle] : as_before.ended) {
      put(number, handle);
      handles_[number].mappings = 0;
    }
    for (const auto& each : as_before.mappings) {
      mappings_.insert(each);
      change(each.second.number, 0, 1);
    }
    mapped_.store(!mappings_.empty());
  });
}

// The mapping around the address, or the next one.
std::map<Address, HandleTable::Mapping>::iterator HandleTable::mapping_at(Address address) {
  auto at = mappings_.upper_bound(address);
  if (at != mappings_.begin() && address - std::prev(at)->first < std::prev(at)->second.bytes)
    --at;
  return at;
}

// visit(address, mapping) for each that has something of the range.
template <typename Visit>
void HandleTable::each_mapping(Address address, Bytes bytes, Visit visit) {
  for (auto at = mapping_at(address);
       at != mappings_.end() && (at->first <= address || at->first - address < bytes);
       ++at)
    visit(at->first, at->second);
}

void HandleTable::accessed(Address address,
                           Bytes bytes,
                           const CUmemAccessDesc* access,
                           std::size_t count) noexcept {
  const RankedLock lock(mutex_);
  each_mapping(address, bytes, [&](Address begin, Mapping& mapping) {
    if (begin < address || begin + mapping.bytes > address + bytes) {
      mapping.whole = false;  // parts have different access
      return;
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
  });
}

void HandleTable::stays(Number number) noexcept {
  const RankedLock lock(mutex_);
  const auto found = handles_.find(number);
  if (found != handles_.end()) found->second.stays = true;
}

void HandleTable::stays_at(Address address, Bytes bytes) noexcept {
  const RankedLock lock(mutex_);
  each_mapping(address, bytes, [&](Address, const Mapping& mapping) REQUIRES(mutex_) {
    const auto found = handles_.find(mapping.number);
    if (found != handles_.end()) found->second.stays = true;
  });
}

void HandleTable::access_unknown(Address address, Bytes bytes) noexcept {
  const RankedLock lock(mutex_);
  each_mapping(address, bytes, [](Address, Mapping& mapping) { mapping.whole = false; });
}

bool HandleTable::is_mapped(Address address) noexcept {
  if (!any_mapped()) return false;
  const RankedLock lock(mutex_);
  const auto at = mapping_at(address);
  return at != mappings_.end() && at->first <= address;
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

std::vector<MappedRange> HandleTable::may_leave(CUdevice device, SleepSums* sums) noexcept {
  std::vector<MappedRange> out;
  const bool cards = any_mapped() && peer_clients::in_use();
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
      // Without host memory for its row it stays.
      quietly([&, at = address, &access = mapping.access] {
        out.push_back({at,
                       handle.bytes,
                       handle.by_driver,
                       handle.properties,
                       handle.flags,
                       access,
                       handle.references == 0});
        rest -= handle.bytes;
      });
    }
  }
  sums->mapped += rest;
  return out;
}

void HandleTable::set_handle(const MappedRange& range, Number by_driver) {
  quietly([&] {
    const RankedLock lock(mutex_);
    const auto mapping = mappings_.find(range.address);
    if (mapping == mappings_.end()) return;
    mapping->second.asleep = by_driver == 0;
    const Number number = mapping->second.number;
    if (const auto handle = handles_.find(number); handle != handles_.end())
      set_driver(number, &handle->second, by_driver);
  });
}

HandleTable& handle_table() noexcept {
  // Never destroyed: programs free memory from static destructors.
  alignas(HandleTable) static std::byte place[sizeof(HandleTable)];
  static auto& made = *new (place) HandleTable;
  return made;
}

}  // namespace custash
