// SPDX-License-Identifier: MIT
// KernelLog: the kernel log. NVIDIA's kernel driver writes there which address
// a fault of the GPU was at, which no CUDA call reports. Only root may read it on most
// systems. State: the open log.
#pragma once

#include "allocator/base/units.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace custash::kernel_log {

constexpr Bytes kPage = 4096;

struct PageFault {
  Address page = 0;    // of kPage bytes
  std::string access;  // "writes", "reads" or "uses"
};

// What a line of the log says about a fault of this process. Pure.
std::optional<PageFault> read(std::string_view line, long process);

// From the end of the log on. Nothing happens where it may not be read.
void begin(const char* path = "/dev/kmsg") noexcept;
// In a forked child: it must not take its parent's lines.
void reset_after_fork() noexcept;
// The last fault of this process since then. Waits for it, 100 ms at most.
std::optional<PageFault> fault() noexcept;
void end() noexcept;

}  // namespace custash::kernel_log
