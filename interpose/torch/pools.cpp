// SPDX-License-Identifier: MIT
#include "interpose/torch/pools.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

namespace custash::torch {

// Its manager copies (2) and destroys (3) what the function has captured.
Filter::Filter(const void* function) {
  std::memcpy(&copy_, function, sizeof copy_);
  if (copy_.manage != nullptr) (void)copy_.manage(copy_.functor, function, 2);
}

Filter::~Filter() {
  if (copy_.manage != nullptr) (void)copy_.manage(copy_.functor, copy_.functor, 3);
}

bool Filter::matches(Stream stream) const {
  return copy_.manage == nullptr || copy_.invoke(copy_.functor, &stream);
}

Pools::Blocks Pools::begin(const Key& key, const void* filter) {
  auto made = std::make_shared<const Filter>(filter);
  Blocks resting;
  const std::lock_guard lock(mutex_);
  // Later a capture may go on.
  for (const auto& [each, pool] : pools_)
    for (const auto& [address, block] : pool.blocks)
      if (active_.empty() && each.device == key.device && block.state == State::Resting)
        resting.emplace(address, block);
  active_.push_back({key, std::move(made)});
  ++pools_[key].uses;
  any_.store(true);
  return resting;
}

void Pools::rested(Address address) {
  const std::lock_guard lock(mutex_);
  Blocks::iterator at;
  Key key{};
  if (Pool* const pool = pool_of(address, State::Resting, &at, &key)) give(pool, at);
}

void Pools::end(const Key& key) {
  Active ended;  // its function ends without the lock
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(
      active_.rbegin(), active_.rend(), [&](const Active& each) { return each.key == key; });
  if (found == active_.rend()) return;
  ended = std::move(*found);
  active_.erase(std::next(found).base());
}

Pools::Segments Pools::release(const Key& key) {
  const std::lock_guard lock(mutex_);
  const auto pool = pools_.find(key);
  if (pool == pools_.end() || --pool->second.uses > 0) return {};
  return take_empty(key);
}

std::vector<Pools::Active> Pools::active() {
  const std::lock_guard lock(mutex_);
  return active_;
}

std::optional<Key> Pools::find(std::size_t bytes, int device, Stream stream) {
  if (!any_.load(std::memory_order_relaxed) || bytes == 0) return std::nullopt;
  const std::vector<Active> now = active();
  const auto found = std::find_if(now.rbegin(), now.rend(), [&](const Active& each) {
    return each.key.device == device && each.filter->matches(stream);
  });
  return found == now.rend() ? std::nullopt : std::optional(found->key);
}

Address Pools::take(const Key& key, std::size_t bytes, Stream stream, Address wanted) {
  const std::lock_guard lock(mutex_);
  Pool& pool = pools_[key];
  if (wanted == 0) {
    const auto best = pool.free.lower_bound({stream, bytes, 0});
    if (best == pool.free.end() || std::get<0>(*best) != stream) return 0;
    wanted = std::get<2>(*best);
  }
  auto at = pool.blocks.upper_bound(wanted);
  if (at == pool.blocks.begin()) return 0;
  --at;
  if (at->second.state != State::Free || wanted - at->first + bytes > at->second.bytes)
    return 0;
  set_used(&pool, at, wanted, bytes);
  return wanted;
}

void Pools::add(
    const Key& key, Address segment, std::size_t size, Stream stream, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  Pool& pool = pools_[key];
  Block whole;
  whole.bytes = size;
  whole.segment = segment;
  whole.stream = stream;
  set_used(&pool, pool.blocks.emplace(segment, std::move(whole)).first, segment, bytes);
  segments_.emplace(segment, key);
}

void Pools::set_free(Pool* pool, Blocks::iterator at) {
  at->second.state = State::Free;
  pool->free.insert({at->second.stream, at->second.bytes, at->first});
}

// What lies before and after the part stays free.
void Pools::set_used(Pool* pool, Blocks::iterator at, Address from, std::size_t bytes) {
  const Block whole = at->second;
  const std::size_t before = from - at->first;
  pool->free.erase({whole.stream, whole.bytes, at->first});
  if (before != 0) {
    at->second.bytes = before;
    set_free(pool, at);
    at = pool->blocks.emplace(from, whole).first;
  }
  at->second.bytes = bytes;
  at->second.state = State::InUse;
  if (const std::size_t after = whole.bytes - before - bytes; after != 0) {
    const auto rest = pool->blocks.emplace(from + bytes, whole).first;
    rest->second.bytes = after;
    set_free(pool, rest);
  }
}

void Pools::give(Pool* pool, Blocks::iterator at) {
  const auto joins = [&](Blocks::iterator each) {
    return each->second.segment == at->second.segment && each->second.state == State::Free;
  };
  const auto leave = [&](Blocks::iterator each) {
    pool->free.erase({each->second.stream, each->second.bytes, each->first});
  };
  if (const auto next = std::next(at); next != pool->blocks.end() && joins(next)) {
    leave(next);
    at->second.bytes += next->second.bytes;
    pool->blocks.erase(next);
  }
  if (at != pool->blocks.begin() && joins(std::prev(at))) {
    const auto before = std::prev(at);
    leave(before);
    before->second.bytes += at->second.bytes;
    pool->blocks.erase(at);
    at = before;
  }
  at->second.others.clear();
  set_free(pool, at);
}

Pools::Pool* Pools::pool_of(Address address, State state, Blocks::iterator* at, Key* key) {
  auto segment = segments_.upper_bound(address);
  if (segment == segments_.begin()) return nullptr;
  *key = (--segment)->second;
  Pool& pool = pools_[*key];
  *at = pool.blocks.find(address);
  return *at == pool.blocks.end() || (*at)->second.state != state ? nullptr : &pool;
}

bool Pools::free(Address address, Segments* empty) {
  if (!any_.load(std::memory_order_relaxed)) return false;
  const std::lock_guard lock(mutex_);
  Blocks::iterator at;
  Key key{};
  Pool* const pool = pool_of(address, State::InUse, &at, &key);
  if (pool == nullptr) return false;
  if (at->second.others.empty())
    give(pool, at);
  else
    at->second.state = State::Resting;
  if (pool->uses <= 0) *empty = take_empty(key);
  return true;
}

bool Pools::record(Address address, Stream stream) {
  if (!any_.load(std::memory_order_relaxed)) return false;
  const std::lock_guard lock(mutex_);
  Blocks::iterator at;
  Key key{};
  if (pool_of(address, State::InUse, &at, &key) == nullptr) return false;
  std::vector<Stream>& others = at->second.others;
  if (stream != at->second.stream &&
      std::find(others.begin(), others.end(), stream) == others.end())
    others.push_back(stream);
  return true;
}

Pools::Segments Pools::take_empty(const Key& key) {
  const auto found = pools_.find(key);
  Pool& pool = found->second;
  std::set<Address> used;
  for (const auto& [address, block] : pool.blocks)
    if (block.state == State::InUse) used.insert(block.segment);
  Segments empty;
  for (auto at = pool.blocks.begin(); at != pool.blocks.end();) {
    const auto here = at++;
    const Block& block = here->second;
    if (used.contains(block.segment)) continue;
    if (segments_.erase(block.segment) != 0) empty.push_back(block.segment);
    pool.free.erase({block.stream, block.bytes, here->first});
    pool.blocks.erase(here);
  }
  if (pool.blocks.empty()) pools_.erase(found);
  any_.store(!pools_.empty());
  return empty;
}

int Pools::uses(const Key& key) {
  const std::lock_guard lock(mutex_);
  const auto pool = pools_.find(key);
  return pool == pools_.end() ? 0 : pool->second.uses;
}

}  // namespace custash::torch
