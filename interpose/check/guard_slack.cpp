// SPDX-License-Identifier: MIT
#include "interpose/check/guard_slack.hpp"

#include "allocator/base/log.hpp"
#include "allocator/base/scope.hpp"
#include "allocator/heap/size_policy.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string>

namespace custash {
namespace {

constexpr std::uint64_t kPatterns = 0xa7a7a7a7a7a7a7a7;

struct Side {
  Address at = 0;
  Bytes bytes = 0;
};

// Before the block, and past its end.
std::array<Side, 2> sides_of(const GuardedBlock& block, Bytes near) {
  const Address end = block.address + block.requested;
  const Bytes before = std::min(block.address - block.begin, near);
  return {Side{block.address - before, before}, Side{end, std::min(block.end - end, near)}};
}

bool is_pattern(const std::byte* at) {
  std::uint64_t word = 0;
  std::memcpy(&word, at, sizeof word);
  return word == kPatterns;
}

// How many bytes have the pattern up to the first that has not.
Bytes clean_from_begin(const std::byte* at, Bytes bytes) {
  Bytes i = 0;
  while (i + sizeof kPatterns <= bytes && is_pattern(at + i))
    i += sizeof kPatterns;
  while (i < bytes && at[i] == std::byte{kSlackPattern})
    ++i;
  return i;
}

Bytes clean_from_end(const std::byte* at, Bytes bytes) {
  Bytes i = bytes;
  while (i >= sizeof kPatterns && is_pattern(at + i - sizeof kPatterns))
    i -= sizeof kPatterns;
  while (i > 0 && at[i - 1] == std::byte{kSlackPattern})
    --i;
  return bytes - i;
}

}  // namespace

void log_no_room(const char* memory, Bytes bytes, const char* what) {
  log(LogLevel::Warn,
      std::string("event=guard_no_room memory=") + memory + " bytes=" + std::to_string(bytes) +
          " effect=\"" + what + " without guards\"");
}

GuardSlack::GuardSlack(const Driver& driver, CUcontext context, Bytes near)
    : driver_(driver),
      context_(context),
      near_(std::min(near, kPageBytes)),
      most_room_(std::min(std::max(2 * near_, kSmallRoom), kPageBytes)) {
}

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
  for (const Side& side : sides_of(block, near_))
    if (side.bytes != 0 &&
        driver_.memset_d8_async(side.at, kSlackPattern, side.bytes, on) != CUDA_SUCCESS)
      return false;
  return true;
}

bool GuardSlack::fill_block(const GuardedBlock& block, CUevent* over) {
  const CurrentContext current(driver_, context_);
  const RelaxedCapture relaxed(driver_);
  CUstream const on = stream();
  if (on == nullptr ||
      (*over == nullptr &&
       driver_.event_create(over, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) ||
      driver_.memset_d8_async(block.address, kFillPattern, block.requested, on) != CUDA_SUCCESS)
    return false;
  // Without an event no work could be ordered after it.
  if (driver_.event_record(*over, on) != CUDA_SUCCESS)
    Status(driver_.ctx_synchronize()).ignore();
  return true;
}

Bytes GuardSlack::room_for(const GuardedBlock& block) const {
  const auto [before, past] = sides_of(block, near_);
  return before.bytes + past.bytes <= kSmallRoom ? kSmallRoom : most_room_;
}

// Without host memory for a large room, a small one does.
bool GuardSlack::find_room(const GuardedBlock& block, Look* out) {
  const auto obtain = [&](Bytes room) {
    void* host = nullptr;
    if (driver_.mem_host_alloc(&host, room, CU_MEMHOSTALLOC_PORTABLE) != CUDA_SUCCESS)
      return false;
    out->copy = static_cast<std::byte*>(host);
    out->room = room;
    return true;
  };
  const Bytes wanted = room_for(block);
  if (out->copy == nullptr && wanted > kSmallRoom && may_have(wanted) && obtain(wanted))
    many_.fetch_add(1);
  if (out->copy == nullptr && !obtain(kSmallRoom)) return false;
  out->near = wanted <= out->room ? near_ : std::min(near_, kLeastNear);
  return true;
}

bool GuardSlack::begin(const GuardedBlock& block, Look* out) {
  const CurrentContext current(driver_, context_);
  const RelaxedCapture relaxed(driver_);
  CUstream const on = stream();
  if (on == nullptr || !find_room(block, out)) return false;
  if (out->over == nullptr &&
      driver_.event_create(&out->over, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
    return false;
  std::byte* to = out->copy;
  for (const Side& side : sides_of(block, out->near)) {
    if (side.bytes != 0 &&
        driver_.memcpy_dtoh_async(to, side.at, side.bytes, on) != CUDA_SUCCESS)
      return false;
    to += side.bytes;
  }
  return driver_.event_record(out->over, on) == CUDA_SUCCESS;
}

CUresult GuardSlack::state_of(const Look& look) const {
  const RelaxedCapture relaxed(driver_);
  return driver_.event_query(look.over);
}

std::optional<SlackWrite> find_write(const SlackWrite& block,
                                     std::span<const std::byte> before,
                                     std::span<const std::byte> past) {
  SlackWrite what = block;
  if (const Bytes clean = clean_from_begin(past.data(), past.size()); clean != past.size()) {
    what.past = true;
    what.distance = clean + 1;
    return what;
  }
  if (const Bytes clean = clean_from_end(before.data(), before.size());
      clean != before.size()) {
    what.distance = clean + 1;
    return what;
  }
  return std::nullopt;
}

std::optional<SlackWrite> GuardSlack::found(const GuardedBlock& block, const Look& look) {
  if (!block.filled) return std::nullopt;
  const auto [before, past] = sides_of(block, look.near);
  return find_write({block.address, block.requested},
                    {look.copy, before.bytes},
                    {look.copy + before.bytes, past.bytes});
}

}  // namespace custash
