// SPDX-License-Identifier: MIT
#include "interpose/check/guard_owners.hpp"

#include "interpose/counters/device_stats.hpp"
#include "interpose/process/process.hpp"

#include <algorithm>

namespace custash::guards {
namespace {

const GuardChoice* choice = nullptr;  // lives as long as the process
CUresult (*ask_pointer)(void*, CUpointer_attribute, CUdeviceptr) = nullptr;

// No memory of the driver's or of another library has the address by now.
bool is_nobodys(Address address) {
  unsigned type = 0;
  return ask_pointer != nullptr &&
         ask_pointer(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) ==
             CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

void begin_owners(const Config& config, void* (*symbol)(const char* name)) {
  choice = &config.guard;
  ask_pointer = reinterpret_cast<decltype(ask_pointer)>(symbol("cuPointerGetAttribute"));
}

Watch watch_of(observe::MemoryKind memory, Address address, Bytes bytes) {
  Allocator* const core = process::running();
  if (core == nullptr) return Watch::No;
  bool guarded = false;
  if (memory == observe::MemoryKind::Device) {
    BlockInfo info;
    if (core->find(address, &info) != Ownership::Live) return Watch::No;
    guarded = info.guarded;
  } else {
    HostBlockInfo info;
    if (process::pinned().find(address, &info) != Ownership::Live) return Watch::No;
    guarded = info.guarded;
  }
  if (guarded) return Watch::WithGuards;
  const bool wanted = choice->one_in == 1 && bytes >= choice->least && bytes <= choice->most;
  return wanted ? Watch::WithoutGuards : Watch::No;
}

std::string why_unguarded(const Config& config, Address address) {
  Allocator* const core = process::running();
  if (config.backing == Backing::Driver) return "backing:driver";
  CUdevice device = 0;
  if (core == nullptr || core->driver().ctx_get_device(&device) != CUDA_SUCCESS) return "";
  Inventory held;
  (void)device_stats::read(*core, device, &held);
  const bool is_plain = std::any_of(held.begin(), held.end(), [&](const HeldSegment& each) {
    return !each.mapped && address - each.base < each.size;
  });
  return is_plain
             ? "this device has no virtual memory management, or a GPU that cannot reach it "
               "(custash doctor)"
             : "";
}

bool still_lives(const Block& block) {
  Allocator* const core = process::running();
  if (core == nullptr) return false;
  if (block.memory == observe::MemoryKind::Pinned) {
    HostBlockInfo info;
    return process::pinned().find(block.address, &info) == Ownership::Live &&
           info.base == block.address && info.requested == block.bytes;
  }
  BlockInfo info;
  return core->find(block.address, &info) == Ownership::Live && info.base == block.address &&
         info.requested == block.bytes;
}

bool is_freed(Address address, const Block& block) {
  Allocator* const core = process::running();
  if (core == nullptr) return false;
  if (block.memory == observe::MemoryKind::Pinned)
    return process::pinned().find(address, nullptr) == Ownership::Cached;
  const Ownership owner = core->find(address, nullptr);
  return owner == Ownership::Cached || (owner == Ownership::Foreign && is_nobodys(address));
}

bool is_outside(Address address, const Block& block) {
  Allocator* const core = process::running();
  BlockInfo info;
  if (core == nullptr || is_freed(address, block)) return core != nullptr;
  return core->find(address, &info) == Ownership::Live && info.base == block.address &&
         address >= block.end();
}

}  // namespace custash::guards
