// SPDX-License-Identifier: MIT
// Shows NVIDIA's tools what custash does, by NVTX in the domain "custash": a range for each
// allocation and free and for each slow driver call, and two counters for each device, sampled
// after an allocation or free, at most 10,000 times a second. Without such a tool NVTX does
// nothing. State: the domain, the counters, the time of the last sample.
#pragma once

namespace custash::nvtx {

// False where custash was built without NVTX's headers.
bool start() noexcept;

// A range of this thread. `name` is a literal. False: it has not begun.
bool begin_range(const char* name) noexcept;
void end_range() noexcept;

}  // namespace custash::nvtx
