// SPDX-License-Identifier: MIT
// Page: physical memory from the driver, and the address at which it is mapped. Pure.
#pragma once

#include "allocator/base/units.hpp"

#include <cuda.h>

namespace custash {

struct Page {
  Address address = 0;
  Bytes size = 0;
  CUmemGenericAllocationHandle handle = 0;
};

}  // namespace custash
