// SPDX-License-Identifier: MIT
// The statistics of a device as custash_device_stats_t. The C API, the texts and the live page
// are all made from this form. Also its members by PyTorch's names. No state.
#pragma once

#include "allocator/allocator.hpp"
#include "interpose/api/custash.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace custash::device_stats {

// All members. `held`, where given, receives the blocks that the walk found.
custash_device_stats_t read(Allocator& core, int device, Inventory* held = nullptr);

// All members but total_bytes and those that need a walk over the blocks.
custash_device_stats_t counters(Allocator& core, int device);

struct CounterMember {
  const char* name;
  std::size_t offset;  // of custash_counter_t, one or kPools of them
  std::size_t pools;
};

struct NumberMember {
  const char* name;
  std::size_t offset;
};

// In the order of the structure; names as memory_stats has them, custash's own with "custash."
// before.
extern const std::array<CounterMember, 11> kCounterMembers;
extern const std::array<NumberMember, 24> kNumberMembers;

inline constexpr const char* kPoolNames[] = {"all", "small_pool", "large_pool"};

const custash_counter_t& counter(const custash_device_stats_t& stats,
                                 const CounterMember& member,
                                 std::size_t pool);
std::int64_t number(const custash_device_stats_t& stats, const NumberMember& member);

// ("allocated_bytes.all.current", value) …
std::vector<std::pair<std::string, std::int64_t>> flatten(const custash_device_stats_t& stats);

// Reads all numbers of the device, and returns what makes JSON of them: the names of callers
// take the loader's lock. `custash stat` makes its other forms of it.
std::function<std::string()> as_json(Allocator& core, int device);

}  // namespace custash::device_stats
