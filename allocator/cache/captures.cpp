// SPDX-License-Identifier: MIT
#include "allocator/cache/captures.hpp"

#include "allocator/base/check.hpp"
#include "allocator/base/rule.hpp"
#include "allocator/heap/block_info.hpp"

#include <algorithm>
#include <utility>

namespace custash {
namespace {

// Blocks that the program has by now have ids below this one. Order: none, the program knows of
// them.
std::uint64_t end_of_ids() {
  return next_buffer_id.load(std::memory_order_relaxed);
}

template <typename T>
void add_once(std::vector<T>& to, const T& value) {
  if (std::find(to.begin(), to.end(), value) == to.end()) to.push_back(value);
}

}  // namespace

Captures::Number Captures::begins(std::uint32_t thread) {
  Lock lock(mutex_);
  Capture& made = living_[next_];
  made.first_id = end_of_ids();
  made.threads.push_back(thread);
  return next_++;
}

// A capture that fails may have put nodes into a graph that existed.
void Captures::begun(Number capture, std::uint64_t driver_id, const void* graph) {
  Lock lock(mutex_);
  const auto its = living_.find(capture);
  if (its == living_.end()) return;  // its context has ended meanwhile
  its->second.driver_id = driver_id;
  if (graph != nullptr) add_numbers(graph, {capture});
}

Captures::Numbers Captures::ended(Number capture, const void* graph) {
  Lock lock(mutex_);
  Capture& its = living_.at(capture);
  CUSTASH_ASSERT(its.goes_on);
  if (graph != nullptr) add_numbers(graph, {capture});
  its.goes_on = false;
  its.end_id = end_of_ids();
  return over({capture});
}

bool Captures::several_go_on() const {
  Lock lock(mutex_);
  return std::count_if(living_.begin(), living_.end(), [](const auto& each) {
           return each.second.goes_on;
         }) > 1;
}

// The driver's number may still be unknown: another thread's capture is just beginning.
void Captures::takes_in(const Call& call) {
  Lock lock(mutex_);
  const bool is_known =
      call.driver_id != 0 && std::any_of(living_.begin(), living_.end(), [&](const auto& each) {
        return each.second.goes_on && each.second.driver_id == call.driver_id;
      });
  for (auto& [number, capture] : living_) {
    if (!capture.goes_on || (is_known && capture.driver_id != call.driver_id)) continue;
    if (holds(Rule::threads_of_a_capture_keep_their_blocks))
      add_once(capture.threads, call.thread);
    if (holds(Rule::captured_calls_keep_what_they_name))
      capture.named.insert(call.named.begin(), call.named.end());
    capture.is_read = capture.is_read && call.reading == Reading::Whole;
    if (call.reading == Reading::None && holds(Rule::unread_calls_keep_every_block))
      capture.unread_end_id = end_of_ids();
  }
}

Captures::Numbers Captures::of(const void* handle) const {
  const auto found = graphs_.find(handle);
  return found == graphs_.end() ? Numbers{} : found->second;
}

void Captures::add_numbers(const void* handle, const Numbers& numbers) {
  if (numbers.empty()) return;
  Numbers& its = graphs_[handle];
  for (const Number number : numbers) {
    if (std::find(its.begin(), its.end(), number) != its.end()) continue;
    its.push_back(number);
    ++living_.at(number).graphs;
  }
}

Captures::Numbers Captures::take_locked(const void* handle) {
  const auto found = graphs_.find(handle);
  if (found == graphs_.end()) return {};
  Numbers taken = std::move(found->second);
  graphs_.erase(found);
  return taken;
}

Captures::Numbers Captures::over(const Numbers& numbers) {
  Numbers ended;
  for (const Number number : numbers) {
    const Capture& its = living_.at(number);
    if (its.goes_on) continue;
    if (its.graphs == 0 || !holds(Rule::captured_blocks_wait_for_every_graph))
      ended.push_back(number);
    if (its.graphs == 0) living_.erase(number);
  }
  return ended;
}

Captures::Numbers Captures::drop_locked(const Numbers& numbers) {
  for (const Number number : numbers) {
    CUSTASH_ASSERT(living_.at(number).graphs != 0);
    --living_.at(number).graphs;
  }
  return over(numbers);
}

void Captures::add(const void* handle, const void* part) {
  Lock lock(mutex_);
  if (holds(Rule::graphs_keep_what_they_are_made_of)) add_numbers(handle, of(part));
}

Captures::Numbers Captures::replace(const void* handle, const void* part) {
  Lock lock(mutex_);
  const Numbers before = take_locked(handle);
  if (holds(Rule::graphs_keep_what_they_are_made_of)) add_numbers(handle, of(part));
  return drop_locked(before);
}

Captures::Numbers Captures::detach(const void* handle) {
  Lock lock(mutex_);
  return take_locked(handle);
}

Captures::Numbers Captures::drop(const Numbers& taken) {
  Lock lock(mutex_);
  return drop_locked(taken);
}

void Captures::put_back(const void* handle, const Numbers& taken) {
  Lock lock(mutex_);
  add_numbers(handle, taken);  // which counts them once more
  (void)drop_locked(taken);
}

Captures::Holders Captures::holders(std::uint64_t id, std::uint32_t thread) const {
  id &= ~kOrderedId;
  Holders all;
  Lock lock(mutex_);
  for (const auto& [number, capture] : living_) {
    if (capture.goes_on && !holds(Rule::captured_blocks_wait_for_captures)) continue;
    const bool named = id < capture.unread_end_id || capture.named.contains(id);
    const bool beside = capture.first_id <= id && id < capture.end_id;
    if (named || (beside && std::find(capture.threads.begin(), capture.threads.end(), thread) !=
                                capture.threads.end()))
      all.push_back({number, named});
  }
  return all;
}

bool Captures::name_nothing(const Holders& holders) const {
  Lock lock(mutex_);
  return std::all_of(holders.begin(), holders.end(), [&](const Holder& each) REQUIRES(mutex_) {
    const auto found = living_.find(each.capture);
    return !each.named && (found == living_.end() || found->second.is_read);
  });
}

}  // namespace custash
