// SPDX-License-Identifier: MIT
#include "allocator/cache/guard_slack.hpp"

#include "allocator/base/scope.hpp"

#include <algorithm>
#include <array>

namespace custash {
namespace {

constexpr unsigned char kPattern = 0xa7;
constexpr Bytes kNear = 4_KiB;  // so much on each side is looked at

struct Side {
  Address at = 0;
  Bytes bytes = 0;
};

// Before the block, and past its end.
std::array<Side, 2> sides_of(const GuardedBlock& block) {
  const Address end = block.address + block.requested;
  const Bytes before = std::min(block.address - block.begin, kNear);
  return {Side{block.address - before, before}, Side{end, std::min(block.end - end, kNear)}};
}

}  // namespace

CUstream GuardSlack::stream() {
  CUstream known = stream_.load(std::memory_order_acquire);
  if (known != nullptr || driver_.stream_create(&known, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS)
    return known;
  stream_.store(known, std::memory_order_release);
  return known;
}

void GuardSlack::fill(const GuardedBlock& block) {
  const CurrentContext current(driver_, context_);
  const RelaxedCapture relaxed(driver_);
  CUstream const on = stream();
  if (on == nullptr) return;
  for (const Side& side : sides_of(block))
    if (side.bytes != 0)
      Status(driver_.memset_d8_async(side.at, kPattern, side.bytes, on)).ignore();
}

bool GuardSlack::begin(const GuardedBlock& block, Look* out) {
  const CurrentContext current(driver_, context_);
  const RelaxedCapture relaxed(driver_);
  CUstream const on = stream();
  if (on == nullptr) return false;
  void* host = out->copy;
  if (host == nullptr &&
      driver_.mem_host_alloc(&host, 2 * kNear, CU_MEMHOSTALLOC_PORTABLE) != CUDA_SUCCESS)
    return false;
  out->copy = static_cast<std::byte*>(host);
  if (out->over == nullptr &&
      driver_.event_create(&out->over, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
    return false;
  std::byte* to = out->copy;
  for (const Side& side : sides_of(block)) {
    if (side.bytes != 0 &&
        driver_.memcpy_dtoh_async(to, side.at, side.bytes, on) != CUDA_SUCCESS)
      return false;
    to += kNear;
  }
  return driver_.event_record(out->over, on) == CUDA_SUCCESS;
}

bool GuardSlack::is_over(const Look& look) const {
  const RelaxedCapture relaxed(driver_);
  return driver_.event_query(look.over) != CUDA_ERROR_NOT_READY;
}

std::optional<Overwritten> GuardSlack::found(const GuardedBlock& block, const Look& look) {
  const auto [before, past] = sides_of(block);
  const auto is_ours = [](std::byte each) { return each == std::byte{kPattern}; };
  for (Bytes i = 0; i < past.bytes; ++i)
    if (!is_ours(look.copy[kNear + i])) return Overwritten{true, i + 1};
  for (Bytes i = before.bytes; i > 0; --i)  // the nearest byte first
    if (!is_ours(look.copy[i - 1])) return Overwritten{false, before.bytes - i + 1};
  return std::nullopt;
}

}  // namespace custash
