// SPDX-License-Identifier: MIT
// Backing: how memory is requested from the driver and returned to it: as plain cuMemAlloc, or
// as pages mapped into reserved addresses. The only state is what the device supports. Called
// without any lock held.
#pragma once

#include "allocator/base/config.hpp"
#include "allocator/base/driver.hpp"
#include "allocator/heap/page.hpp"
#include "allocator/memory/deferred_unmaps.hpp"

#include <atomic>
#include <vector>

namespace custash {

class DriverMemory {
 public:
  DriverMemory(const Driver& driver,
               DeferredUnmaps& deferred_unmaps,
               Backing wanted,
               CUcontext context,
               CUdevice device);

  [[nodiscard]] bool vmm() const { return vmm_.load(std::memory_order_relaxed); }

  // VMM failed for a lasting reason: segments are plain from now on.
  void give_up_vmm() { vmm_.store(false); }

  // The most that the device can give. Unlimited if the driver did not report it.
  [[nodiscard]] Bytes device_bytes() const {
    return device_bytes_ == 0 ? 1ULL << 47U : device_bytes_;
  }

  // The bytes that the driver would still give; unlimited if it does not report them.
  [[nodiscard]] Bytes free_bytes() const;

  // Reserves addresses without memory: at least `bytes`, and as many as the device could ever
  // fill.
  Status reserve(Bytes bytes, Address* base, Bytes* size) const;
  Status reserve_exactly(Bytes bytes, Address* base) const;
  void unreserve(Address base, Bytes size) const;

  // Fills [begin, end) with pages that this device and `accessors` may use. First come the
  // `moved` ones, which also stay mapped at their old addresses, then new ones of up to
  // `handle` bytes. All or nothing.
  Status map(Address begin,
             Address end,
             Bytes handle,
             const std::vector<Page>& moved,
             const std::vector<CUdevice>& accessors,
             std::vector<Page>* out) const;
  // One new page, without access.
  Status make_page(Address at, Bytes bytes, Page* out) const;
  Status make_page(Address at,
                   Bytes bytes,
                   const CUmemAllocationProp& properties,
                   unsigned long long flags,
                   Page* out) const;
  // A page that has a handle and is mapped nowhere, without access.
  Status place(const Page& page) const;
  // Unmaps a range whose pages were moved.
  Status unmap(Address begin, Bytes bytes) const;
  Status give_access(Address begin,
                     Bytes bytes,
                     CUdevice device,
                     CUmemAccess_flags flags) const;

  Status alloc(Bytes bytes, Address* out) const;
  Status free(Address address) const;

 private:
  const Driver& driver_;
  DeferredUnmaps& deferred_unmaps_;
  const CUcontext context_;
  const CUdevice device_;
  CUmemAllocationProp properties_{};
  Bytes device_bytes_ = 0;
  // Order: none. A thread that reads an old value asks the driver in vain.
  std::atomic<bool> vmm_{false};
};

}  // namespace custash
