// SPDX-License-Identifier: MIT
#include "pinned/named_streams.hpp"

#include "allocator/base/check.hpp"
#include "allocator/base/rule.hpp"
#include "allocator/work_in_flight.hpp"
#include "pinned/host_pool.hpp"

#include <algorithm>
#include <utility>

namespace custash {
namespace {

constexpr std::uint64_t kNoTicket = ~0ULL;  // a ticket that never passes

}  // namespace

void NamedStreams::name(const Lock& lock, HostBlock* block, CUstream stream, NullStream null) {
  mutex_.assert_held(lock);
  auto& named = streams_[block];
  const StreamUse name(stream, null);
  if (std::find(named.begin(), named.end(), name) == named.end()) named.push_back(name);
  block->tracked = true;
}

std::vector<NamedStreams::StreamUse> NamedStreams::named_for(HostBlock* block) {
  Lock lock(mutex_);
  const auto it = streams_.find(block);
  return it != streams_.end() ? it->second : std::vector<StreamUse>();
}

void NamedStreams::put_behind(const Lock& lock, Uses leaving) {
  mutex_.assert_held(lock);
  CUSTASH_ASSERT(leaving.block->state == HostBlockState::Busy && leaving.block->tracked);
  streams_.erase(leaving.block);
  leaving.pool->put_in_limbo(leaving.block, kNoTicket);
  behind_streams_.push_back(std::move(leaving));
}

bool NamedStreams::any_behind(const Lock& lock, CUcontext only) const {
  mutex_.assert_held(lock);
  return std::any_of(behind_streams_.begin(), behind_streams_.end(), [&](const Uses& uses) {
    return only == nullptr || uses.pool->context == only;
  });
}

void NamedStreams::forget(const Lock& lock, HostBlock* block) {
  mutex_.assert_held(lock);
  streams_.erase(block);
}

void NamedStreams::forget(const Lock& lock, const HostPool& pool) {
  mutex_.assert_held(lock);
  std::erase_if(behind_streams_, [&](const Uses& uses) { return uses.pool == &pool; });
  std::erase_if(streams_,
                [&](const auto& entry) { return entry.first->segment->pool == &pool; });
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
    CUSTASH_ASSERT(uses.block->state == HostBlockState::InLimbo && uses.block->tracked);
    CUSTASH_ASSERT(uses.block->ticket == kNoTicket && uses.block->buffer_id == uses.buffer_id);
    uses.block->tracked = false;
    uses.block->ticket = 0;
    return true;
  });
}

}  // namespace custash
