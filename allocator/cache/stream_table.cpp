// SPDX-License-Identifier: MIT
#include "allocator/cache/stream_table.hpp"

#include "allocator/base/rule.hpp"

#include <algorithm>
#include <bit>

namespace custash {

std::uint64_t StreamTable::key(CUstream stream) {
  return reinterpret_cast<std::uint64_t>(stream);
}

std::uint64_t StreamTable::key_of_thread(std::uint64_t per_thread) {
  return (per_thread << 2U) | (1ULL << 63U);
}

std::uint64_t StreamTable::key(CUstream stream, std::uint64_t per_thread, CUcontext green) {
  if (stream == CU_STREAM_PER_THREAD && holds(Rule::each_thread_has_its_own_stream))
    return key_of_thread(per_thread);
  if (stream == CU_STREAM_LEGACY && green != nullptr &&
      holds(Rule::each_green_context_has_a_legacy_stream))
    return reinterpret_cast<std::uint64_t>(green) | (1ULL << 62U);
  return key(stream);
}

Lane* StreamTable::get(std::uint64_t key, CUstream stream, CUcontext green) {
  Lane*& found = lanes_[key];
  if (found == nullptr) {
    found = make(stream);
    found->green = green;
  }
  return found;
}

// The lane of a destroyed stream serves again when its work is over and no stamp names it.
Lane* StreamTable::make(CUstream stream) {
  for (Lane*& orphan : orphans_) {
    const bool stamped =
        orphan->stamped > timeline_.passed() && holds(Rule::lanes_in_stamps_serve_nobody_else);
    if (stamped || !timeline_.adopt(*orphan, stream)) continue;
    Lane* lane = orphan;
    orphan = orphans_.back();
    orphans_.pop_back();
    return lane;
  }
  timeline_.expect_lanes(std::max<std::size_t>(16, std::bit_ceil(all_.size() + 1)));
  return &all_.emplace_back(stream);
}

std::vector<std::uint64_t> StreamTable::keys_of(CUcontext green) const {
  std::vector<std::uint64_t> keys;
  for (const auto& [key, lane] : lanes_)
    if (lane != nullptr && lane->green == green) keys.push_back(key);
  return keys;
}

Lane* StreamTable::remove(std::uint64_t key) {
  const auto it = lanes_.find(key);
  if (it == lanes_.end()) return nullptr;
  Lane* lane = it->second;
  lanes_.erase(it);
  if (lane == nullptr) return nullptr;  // get() ran out of host memory
  if (lane->pool != nullptr) spare_pools_.push_back(lane->pool);
  lane->pool = nullptr;
  return lane;
}

Pool* StreamTable::take_spare_pool() {
  if (spare_pools_.empty()) return nullptr;
  Pool* pool = spare_pools_.back();
  spare_pools_.pop_back();
  return pool;
}

}  // namespace custash
