// SPDX-License-Identifier: MIT
#include "interpose/summary.hpp"

#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>

namespace custash {
namespace {

constexpr double kMiB = 1024.0 * 1024.0;

void print_device(int device, const DeviceStats& stats) {
  constexpr int kAll = static_cast<int>(StatPool::All);
  char line[512];
  const int length = std::snprintf(
      line, sizeof line,
      "custash: device %d: %" PRId64 " allocations, %" PRId64 " frees; peak in use %.1f MiB, "
      "peak reserved %.1f MiB; driver calls for memory %" PRId64 " + %" PRId64
      "; fences %" PRId64 ", waits on the GPU %" PRId64 ", frees that waited %" PRId64
      ", out of memory %" PRId64 "\n",
      device, stats.allocation[kAll].allocated, stats.allocation[kAll].freed,
      static_cast<double>(stats.allocated_bytes[kAll].peak) / kMiB,
      static_cast<double>(stats.reserved_bytes[kAll].peak) / kMiB, stats.num_device_alloc,
      stats.num_device_free, stats.num_fences, stats.num_debt_waits, stats.num_free_waits,
      stats.num_ooms);
  if (length <= 0) return;
  const auto size = std::min(static_cast<std::size_t>(length), sizeof line - 1);
  if (write(STDERR_FILENO, line, size) < 0) return;  // nowhere to say it
}

}  // namespace

void print_summary(Allocator& core) noexcept {
  try {
    int count = 0;
    if (core.driver().device_get_count(&count) != CUDA_SUCCESS) return;
    bool any = false;
    for (int device = 0; device < count; ++device) {
      const DeviceStats stats = core.stats(device);
      if (stats.allocation[static_cast<int>(StatPool::All)].allocated == 0) continue;
      print_device(device, stats);
      any = true;
    }
    if (!any) print_device(0, core.stats(0));
  } catch (...) {
    // Without memory there is no summary; the program's exit code is what counts.
  }
}

}  // namespace custash
