// SPDX-License-Identifier: MIT
#include "allocator/cache/stream_table.hpp"

#include "allocator/base/check.hpp"
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

StreamState* StreamTable::get(std::uint64_t key, CUstream stream, CUcontext green) {
  StreamState*& found = stream_states_[key];
  if (found == nullptr) {
    found = make(stream);
    found->green = green;
  }
  return found;
}

// The state of a destroyed stream serves another when the stream's work is over and no freed
// block names it.
StreamState* StreamTable::make(CUstream stream) {
  for (StreamState*& orphan : orphans_) {
    const bool named = orphan->last_free > timeline_.fences().passed() &&
                       holds(Rule::stream_states_of_freed_blocks_serve_nobody_else);
    if (named || !timeline_.adopt(*orphan, stream)) continue;
    CUSTASH_ASSERT(!orphan->orphan.load() && orphan->pool == nullptr);
    StreamState* stream_state = orphan;
    orphan = orphans_.back();
    orphans_.pop_back();
    return stream_state;
  }
  timeline_.expect_streams(std::max<std::size_t>(16, std::bit_ceil(all_.size() + 1)));
  return &all_.emplace_back(stream);
}

std::vector<std::uint64_t> StreamTable::keys_of(CUcontext green) const {
  std::vector<std::uint64_t> keys;
  for (const auto& [key, stream_state] : stream_states_)
    if (stream_state != nullptr && stream_state->green == green) keys.push_back(key);
  return keys;
}

StreamState* StreamTable::remove(std::uint64_t key) {
  const auto it = stream_states_.find(key);
  if (it == stream_states_.end()) return nullptr;
  StreamState* stream_state = it->second;
  stream_states_.erase(it);
  CUSTASH_ASSERT(stream_state == nullptr || !stream_state->orphan.load());
  CUSTASH_ASSERT(stream_state == nullptr || stream_state->pool == nullptr ||
                 std::count(spare_pools_.begin(), spare_pools_.end(), stream_state->pool) == 0);
  if (stream_state == nullptr) return nullptr;  // get() ran out of host memory
  if (stream_state->pool != nullptr) spare_pools_.push_back(stream_state->pool);
  stream_state->pool = nullptr;
  return stream_state;
}

Pool* StreamTable::take_spare_pool() {
  if (spare_pools_.empty()) return nullptr;
  Pool* pool = spare_pools_.back();
  spare_pools_.pop_back();
  return pool;
}

}  // namespace custash
