// SPDX-License-Identifier: MIT
// Observe: shows each call that allocates or frees to the observers. It knows none of them:
// each gives its functions when it begins. All share one switch: while nothing is watched, a
// hook pays one predictable branch. (The calls that submit work: check/observers.hpp.)
#pragma once

#include "allocator/allocator.hpp"

#include <array>
#include <atomic>
#include <cstdint>

namespace custash::observe {

// Other: device memory that the driver serves itself.
enum class MemoryKind : unsigned char { Device, Pinned, Other };

// The stream that the call named; `named` is false where it named none.
struct Stream {
  bool named = false;
  CUstream handle = nullptr;
  NullStream null = NullStream::Legacy;
};

// A call that allocates or frees, or one that empties the cache, without address and bytes.
struct Call {
  const char* name = nullptr;  // a literal
  MemoryKind memory = MemoryKind::Device;
  bool is_free = false;
  Address address = 0;  // of an allocation: once it has succeeded
  Bytes bytes = 0;      // of an allocation
  Stream stream{};

  [[nodiscard]] bool frees() const { return is_free && address != 0; }

  // The address is no block's.
  [[nodiscard]] bool free_failed(CUresult result) const {
    return is_free && result == CUDA_ERROR_INVALID_VALUE;
  }

  [[nodiscard]] bool allocated(CUresult result) const {
    return !is_free && result == CUDA_SUCCESS && bytes != 0;
  }

  [[nodiscard]] bool ran_out(CUresult result) const {
    return !is_free && result == CUDA_ERROR_OUT_OF_MEMORY;
  }
};

using Token = std::uint64_t;

// before() may return a token, which after() receives; 0 if the observer has begun in between.
// A free is noted before the driver's call: afterwards another thread may get the same address.
// after() runs in the call's context. Null: not interested.
struct Observer {
  Token (*before)(const Call& call) = nullptr;
  void (*after)(const Call& call, CUresult result, Token token) = nullptr;
  // Sees stream-ordered calls on a stream that captures, too: they make nodes of a graph.
  bool sees_nodes = false;
};

// In the order of after(); before() runs in the opposite order.
enum class Watcher : unsigned { Nvtx, Counters, Streams, Record, History, Guards, Dumps };

inline constexpr std::size_t kWatchers = 7;

// A bit for each. Order: none. What a watcher needs is made under its own lock.
extern std::atomic<unsigned> watchers;

inline bool on() {
  return watchers.load(std::memory_order_relaxed) != 0;
}

inline bool watched_by(Watcher watcher) {
  return (watchers.load(std::memory_order_relaxed) >> static_cast<unsigned>(watcher) & 1U) != 0;
}

// `observer` must live as long as the process.
void begin(Watcher watcher, const Observer* observer) noexcept;
void end(Watcher watcher) noexcept;

using Tokens = std::array<Token, kWatchers>;

void before(const Call& call, Tokens* tokens) noexcept;
void after(const Call& call, CUresult result, const Tokens& tokens) noexcept;

// Makes the call, and shows it to the observers. `call_of(result)` describes it, before it is
// made as one that fails.
template <typename CallOf, typename Make>
CUresult around(CallOf call_of, Make make) {
  Tokens tokens;
  const bool was_on = on();
  if (was_on) [[unlikely]]
    before(call_of(CUDA_ERROR_UNKNOWN), &tokens);
  const CUresult result = make();
  if (on()) [[unlikely]]  // asked again: the first call starts the watchers
    after(call_of(result), result, was_on ? tokens : Tokens{});
  return result;
}

// `make()` fills in the address of an allocation.
template <typename Make>
CUresult around(const Call& call, Make make) {
  return around([&](CUresult) { return call; }, make);
}

}  // namespace custash::observe
