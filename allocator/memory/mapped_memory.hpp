// SPDX-License-Identifier: MIT
// MappedMemory: the memory that the program made by handles and mapped itself, as far as it may
// sleep. The process's is interpose/hooks/handle_table.hpp. Called without a lock while the
// process stands still or is asleep, so that none of it changes meanwhile. decision 21
#pragma once

#include "allocator/base/units.hpp"
#include "allocator/memory/sleep_sums.hpp"

#include <vector>

#include <cuda.h>

namespace custash {

// One whole handle at one address.
struct MappedRange {
  Address address = 0;
  Bytes size = 0;
  CUmemGenericAllocationHandle handle = 0;  // the driver's number
  CUmemAllocationProp properties{};
  unsigned long long flags = 0;
  std::vector<CUmemAccessDesc> access;
  bool released = false;  // by the program: its mapping alone keeps the memory
};

class MappedMemory {
 public:
  virtual ~MappedMemory() = default;

  // Those of the device that may leave now. Counts what stays.
  virtual std::vector<MappedRange> may_leave(CUdevice device, SleepSums* sums) noexcept = 0;
  // The range's memory has this handle from now on; 0: none, the driver has the memory.
  virtual void set_handle(const MappedRange& range, CUmemGenericAllocationHandle handle) = 0;
};

}  // namespace custash
