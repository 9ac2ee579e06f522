// SPDX-License-Identifier: MIT
#include "tools/command/live/devices.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <set>
#include <string>

namespace custash::live {
namespace {

Bytes bytes_of(std::int64_t value) {
  return static_cast<Bytes>(std::max<std::int64_t>(value, 0));
}

// "0000:0A:00.0", as CUDA writes it.
std::optional<PciAddress> address_of(const DevicePart& part) {
  const std::string bus(part.bus, strnlen(part.bus, sizeof part.bus));
  PciAddress address;
  if (std::sscanf(bus.c_str(), "%x:%x:%x", &address.domain, &address.bus, &address.device) != 3)
    return std::nullopt;
  return address;
}

// A device without an address is known by its number alone.
DeviceUse* find(std::vector<DeviceUse>& uses, const DevicePart& part) {
  const auto address = address_of(part);
  const auto found = std::find_if(uses.begin(), uses.end(), [&](const DeviceUse& each) {
    return address && each.address ? *each.address == *address : each.number == part.device;
  });
  return found == uses.end() ? nullptr : &*found;
}

// Two devices of one number: their places in the order of their addresses tell them apart.
void number_anew(std::vector<DeviceUse>& uses) {
  std::set<int> numbers;
  for (const DeviceUse& use : uses)
    numbers.insert(use.number);
  if (numbers.size() == uses.size()) return;
  std::sort(uses.begin(), uses.end(), [](const DeviceUse& a, const DeviceUse& b) {
    return a.address < b.address;
  });
  for (std::size_t i = 0; i < uses.size(); ++i)
    uses[i].number = static_cast<int>(i);
}

Bytes less(Bytes from, Bytes what) {
  return from - std::min(from, what);
}

}  // namespace

std::int64_t on_device(const DevicePart& part) {
  return part.reserved_bytes + part.by_driver_bytes - part.asleep_bytes;
}

bool is_used(const DevicePart& part) {
  return part.reserved_bytes != 0 || part.allocations != 0 || part.by_driver_bytes != 0;
}

std::vector<DeviceUse> uses_of(const Look& look) {
  std::vector<DeviceUse> uses;
  for (const DeviceReading& each : look.devices)
    uses.push_back({.number = each.number,
                    .address = each.address,
                    .uuid = each.uuid,
                    .total = each.memory.total,
                    .others = each.memory.used});
  for (const Seen& each : look.seen) {
    for (std::int64_t i = 0; i < each.page.device_count; ++i) {
      const DevicePart& part = each.page.devices[i];
      if (!is_used(part)) continue;
      DeviceUse* use = find(uses, part);
      if (use == nullptr) {
        uses.push_back({.number = static_cast<int>(part.device),
                        .address = address_of(part),
                        .uuid = {},
                        .others = {}});
        use = &uses.back();
      }
      use->total = std::max(use->total, bytes_of(part.total_bytes));
      // What sleeps is in use, and not on the device.
      const Bytes held = bytes_of(on_device(part));
      const Bytes in_use = std::min(
          held, bytes_of(part.allocated_bytes + part.by_driver_bytes - part.asleep_bytes));
      use->in_use += in_use;
      use->cached += held - in_use;
      // Read at another moment: it may be the smaller one.
      if (use->others) use->others = less(*use->others, held);
    }
  }
  number_anew(uses);
  std::sort(uses.begin(), uses.end(), [](const DeviceUse& a, const DeviceUse& b) {
    return a.number < b.number;
  });
  return uses;
}

int number_of(const std::vector<DeviceUse>& uses, const DevicePart& part) {
  const auto address = address_of(part);
  for (const DeviceUse& each : uses)
    if (address && each.address ? *each.address == *address : each.number == part.device)
      return each.number;
  return static_cast<int>(part.device);
}

}  // namespace custash::live
