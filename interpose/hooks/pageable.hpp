// SPDX-License-Identifier: MIT
// Pageable memory: memory of the host that no call of CUDA has named. On some machines kernels
// reach it by its own address: Grace, and systems with HMM. No state but what the devices
// answer.
#pragma once

#include "allocator/base/driver.hpp"

namespace custash::pageable {

// Whether kernels of one of the devices reach it. The driver is asked once.
bool is_reached(const Driver& driver) noexcept;

// Whether something is mapped there in this process. Asks the system only where the word may be
// an address of its own memory. Most numbers are not. Keeps errno.
bool is_mapped(Address word) noexcept;

}  // namespace custash::pageable
