// SPDX-License-Identifier: MIT
// Pageable memory: memory of the host that no CUDA call has named. On some machines kernels
// reach it by its own address, through the host's page tables (Grace). With HMM they reach it,
// too; but that is on for most programs of such a system without their use of it, so it does
// not count. No state but what the devices answer.
#pragma once

#include "allocator/base/driver.hpp"

namespace custash::pageable {

// Whether one of the devices has the host's page tables. It queries the driver once.
bool is_reached(const Driver& driver) noexcept;

// Whether something is mapped there in this process. Asks the system only where the word may be
// an address of its own memory. Most numbers are not. Keeps errno.
bool is_mapped(Address word) noexcept;

}  // namespace custash::pageable
