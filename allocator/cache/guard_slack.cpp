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

bool GuardSlack::fill(const GuardedBlock& block) {
  const CurrentContext current(driver_, context_);
  const RelaxedCapture relaxed(driver_);
  CUstream const on = stream();
  if (on == nullptr) return false;
  for (const Side& side : sides_of(block))
    if (side.bytes != 0 &&
        driver_.memset_d8_async(side.at, kPattern, side.bytes, on) != CUDA_SUCCESS)
      return false;
  return true;
}

bool GuardSlack::fill_block(const GuardedBlock& block, CUevent* over) {
  constexpr unsigned char kNan = 0xff;
  const CurrentContext current(driver_, context_);
  const RelaxedCapture relaxed(driver_);
  CUstream const on = stream();
  if (on == nullptr ||
      (*over == nullptr &&
       driver_.event_create(over, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) ||
      driver_.memset_d8_async(block.address, kNan, block.requested, on) != CUDA_SUCCESS)
    return false;
  // Without an event nobody could come after it.
  if (driver_.event_record(*over, on) != CUDA_SUCCESS)
    Status(driver_.ctx_synchronize()).ignore();
  return true;
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

CUresult GuardSlack::state_of(const Look& look) const {
  const RelaxedCapture relaxed(driver_);
  return driver_.event_query(look.over);
}

std::optional<SlackWrite> GuardSlack::found(const GuardedBlock& block, const Look& look) {
  if (!block.filled) return std::nullopt;
  SlackWrite what{block.address, block.requested};
  const auto [before, past] = sides_of(block);
  const auto is_ours = [](std::byte each) { return each == std::byte{kPattern}; };
  for (Bytes i = 0; i < past.bytes; ++i)
    if (!is_ours(look.copy[kNear + i])) {
      what.past = true;
      what.distance = i + 1;
      return what;
    }
  for (Bytes i = before.bytes; i > 0; --i)  // the nearest byte first
    if (!is_ours(look.copy[i - 1])) {
      what.distance = before.bytes - i + 1;
      return what;
    }
  return std::nullopt;
}

}  // namespace custash
