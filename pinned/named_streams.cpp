// SPDX-License-Identifier: MIT
#include "pinned/named_streams.hpp"

#include "allocator/base/check.hpp"
#include "allocator/base/rule.hpp"
#include "allocator/work_in_flight.hpp"
#include "pinned/host_pool.hpp"

#include <algorithm>
#include <utility>

namespace custash {

void NamedStreams::name(const Lock& lock, Block* block, CUstream stream, NullStream null) {
  mutex_.assert_held(lock);
  auto& named = streams_[block];
  const StreamUse name(stream, null);
  if (std::find(named.begin(), named.end(), name) == named.end()) named.push_back(name);
  block->marks.shared_streams = true;
}

std::vector<NamedStreams::StreamUse> NamedStreams::named_for(Block* block) {
  Lock lock(mutex_);
  const auto it = streams_.find(block);
  return it != streams_.end() ? it->second : std::vector<StreamUse>();
}

void NamedStreams::put_behind(const Lock& lock, Uses leaving) {
  mutex_.assert_held(lock);
  CUSTASH_ASSERT(leaving.block->state == BlockState::Busy && leaving.block->marks.any());
  forget(lock, leaving.block);
  HostPool::of(*leaving.block).put_in_limbo(leaving.block, Position::end().count);
  behind_streams_.push_back(std::move(leaving));
}

void NamedStreams::forget(const Lock& lock, Block* block) {
  mutex_.assert_held(lock);
  if (std::exchange(block->marks.shared_streams, false)) streams_.erase(block);
}

void NamedStreams::forget(const Lock& lock, const HostPool& pool) {
  mutex_.assert_held(lock);
  std::erase_if(behind_streams_,
                [&](const Uses& uses) { return &HostPool::of(*uses.block) == &pool; });
  std::erase_if(streams_,
                [&](const auto& entry) { return &HostPool::of(*entry.first) == &pool; });
}

// The events are queried without the lock. Meanwhile a context may end, and its buffers with
// it: so buffers are found again by their id.
void NamedStreams::poll() {
  std::vector<Uses> asked;
  {
    Lock lock(mutex_);
    asked = behind_streams_;
  }
  if (asked.empty()) return;
  std::vector<std::uint64_t> safe;
  for (const Uses& uses : asked) {
    const auto over = [](const HostUse& use) { return WorkInFlight::use_over(use); };
    const bool safe_now = holds(Rule::buffers_wait_for_all_named_streams)
                              ? std::all_of(uses.streams.begin(), uses.streams.end(), over)
                              : std::any_of(uses.streams.begin(), uses.streams.end(), over);
    if (safe_now) safe.push_back(uses.buffer_id);
  }
  Lock lock(mutex_);
  std::erase_if(behind_streams_, [&](const Uses& uses) {
    if (std::find(safe.begin(), safe.end(), uses.buffer_id) == safe.end()) return false;
    CUSTASH_ASSERT(uses.block->reuse_after.plain == Position::end());
    CUSTASH_ASSERT(uses.block->buffer_id == uses.buffer_id);
    HostPool::of(*uses.block).make_safe(uses.block);
    return true;
  });
}

}  // namespace custash
