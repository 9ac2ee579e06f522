// SPDX-License-Identifier: MIT
#include "tests/sim/cost.hpp"

#include <algorithm>
#include <cmath>
#include <span>

namespace custash::sim {
namespace {

struct Point {
  double bytes;
  double microseconds;
};

constexpr double kKi = 1024;
constexpr double kMi = 1024 * kKi;
constexpr double kGi = 1024 * kMi;

// Straight lines between measured points; beyond the last one in proportion.
Nanoseconds between(std::span<const Point> points, Bytes bytes) {
  const auto size = static_cast<double>(bytes);
  double us = points.back().microseconds * size / points.back().bytes;
  if (size <= points.front().bytes) us = points.front().microseconds;
  for (std::size_t i = 1; i < points.size(); ++i) {
    const Point& a = points[i - 1];
    const Point& b = points[i];
    if (size > a.bytes && size <= b.bytes)
      us = a.microseconds +
           (b.microseconds - a.microseconds) * (size - a.bytes) / (b.bytes - a.bytes);
  }
  return static_cast<Nanoseconds>(us * 1000);
}

constexpr Point kAlloc[] = {
    {64 * kKi, 1.3}, {kMi, 33}, {20 * kMi, 33}, {256 * kMi, 54}, {kGi, 74}, {8 * kGi, 449}};
constexpr Point kFree[] = {
    {64 * kKi, 1.3}, {kMi, 30}, {20 * kMi, 30}, {256 * kMi, 95}, {kGi, 334}, {8 * kGi, 2104}};
constexpr Point kHostAlloc[] = {
    {4 * kKi, 452}, {16 * kMi, 4100}, {256 * kMi, 81'000}, {kGi, 335'000}};
constexpr Point kHostFree[] = {
    {4 * kKi, 190}, {16 * kMi, 1300}, {256 * kMi, 21'000}, {kGi, 86'000}};
constexpr Point kCreate[] = {{20 * kMi, 7}, {256 * kMi, 8}, {kGi, 13}};
constexpr Point kAccess[] = {{256 * kMi, 38}, {kGi, 61}};
constexpr Point kUnmap[] = {{256 * kMi, 20}, {kGi, 28}};
// What a call takes less for each mapping after its first: 1 GiB in 8 to 512 handles takes
// 38 + 17 n and 20 + 12 n microseconds.
constexpr Nanoseconds kAccessOnce = 21'000;
constexpr Nanoseconds kUnmapOnce = 8'000;
constexpr Point kRelease[] = {{2 * kMi, 9}, {20 * kMi, 16}, {256 * kMi, 69}, {kGi, 252}};

}  // namespace

Nanoseconds base_cost(Symbol symbol) {
  switch (symbol) {
    case k_cuCtxGetCurrent:
      return 8;
    case k_cuCtxGetDevice:
      return 10;
    case k_cuStreamGetId:
    case k_cuStreamGetId_ptsz:
      return 17;
    case k_cuMemGetAddressRange_v2:
      return 50;
    case k_cuPointerGetAttribute:
    case k_cuPointerGetAttributes:
      return 70;
    case k_cuMemGetInfo_v2:
      return 4300;
    case k_cuThreadExchangeStreamCaptureMode:
      return 6;
    case k_cuLaunchKernel:
    case k_cuLaunchKernel_ptsz:
    case k_cuLaunchKernelEx:
    case k_cuLaunchKernelEx_ptsz:
    case k_cuLaunchCooperativeKernel:
    case k_cuLaunchCooperativeKernel_ptsz:
    case k_cuGraphLaunch:
    case k_cuGraphLaunch_ptsz:
      return 3000;
    case k_cuEventRecord:
    case k_cuEventRecord_ptsz:
    case k_cuEventRecordWithFlags:
    case k_cuEventRecordWithFlags_ptsz:
      return 190;
    case k_cuCtxRecordEvent:
      return 250;
    case k_cuCtxWaitEvent:
      return 300;
    case k_cuEventQuery:
      return 150;
    case k_cuStreamWaitEvent:
    case k_cuStreamWaitEvent_ptsz:
      return 70;
    case k_cuEventCreate:
    case k_cuEventDestroy_v2:
      return 95;
    case k_cuMemAllocAsync:
    case k_cuMemAllocAsync_ptsz:
      return 280;
    case k_cuMemFreeAsync:
    case k_cuMemFreeAsync_ptsz:
      return 390;
    case k_cuStreamCreate:
    case k_cuStreamCreateWithPriority:
    case k_cuStreamDestroy_v2:
      return 8000;
    case k_cuStreamSynchronize:
    case k_cuStreamSynchronize_ptsz:
    case k_cuCtxSynchronize:
    case k_cuCtxSynchronize_v2:
    case k_cuEventSynchronize:
      return 1000;
    case k_cuMemAddressReserve:
    case k_cuMemAddressFree:
      return 3000;
    // What these take depends on the size and is charged where it is known.
    case k_cuMemAlloc_v2:
    case k_cuMemAllocPitch_v2:
    case k_cuMemAllocManaged:
    case k_cuMemFree_v2:
    case k_cuMemAllocHost_v2:
    case k_cuMemHostAlloc:
    case k_cuMemFreeHost:
    case k_cuMemCreate:
    case k_cuMemMap:
    case k_cuMemSetAccess:
    case k_cuMemUnmap:
    case k_cuMemRelease:
      return 100;
    default:
      break;
  }
  if (symbol >= k_cuMemcpy && symbol <= k_cuMemsetD2D32Async_ptsz) return 2000;
  return 100;
}

Nanoseconds alloc_cost(Bytes bytes) {
  return between(kAlloc, bytes);
}

Nanoseconds free_cost(Bytes bytes) {
  return between(kFree, bytes);
}

Nanoseconds host_alloc_cost(Bytes bytes) {
  return between(kHostAlloc, bytes);
}

Nanoseconds host_free_cost(Bytes bytes) {
  return between(kHostFree, bytes);
}

Nanoseconds create_cost(Bytes bytes) {
  return between(kCreate, bytes);
}

Nanoseconds access_cost(Bytes bytes, std::size_t before) {
  return between(kAccess, bytes) - (before == 0 ? 0 : kAccessOnce);
}

Nanoseconds unmap_cost(Bytes bytes, std::size_t before) {
  return between(kUnmap, bytes) - (before == 0 ? 0 : kUnmapOnce);
}

Nanoseconds release_cost(Bytes bytes) {
  return between(kRelease, bytes);
}

Nanoseconds copy_duration(Bytes bytes, CopyPath path) {
  switch (path) {  // bytes a nanosecond
    case CopyPath::Device:
      return 1500 + bytes / 1500;
    case CopyPath::Bus:
      return 1500 + bytes / 50;
    case CopyPath::Staged:
      return 1500 + bytes / 10;
  }
  return 1500;
}

Nanoseconds fill_duration(Bytes bytes) {
  return 1500 + bytes / 2000;
}

}  // namespace custash::sim
