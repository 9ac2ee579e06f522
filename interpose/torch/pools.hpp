// SPDX-License-Identifier: MIT
// Pools: PyTorch's private pools (torch.cuda.MemPool, CUDA graphs), over functions of
// custash.h. A pool takes segments, divides them among its blocks and keeps what is freed. Once
// PyTorch has released it, a segment without blocks in use goes. State: the process's pools, in
// one table behind its own lock, never held across a call.
#pragma once

#include "interpose/api/custash.h"

#include <atomic>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

namespace custash::torch {

using Address = std::uintptr_t;
using Stream = custash_stream_t;

// A copy of a std::function<bool(cudaStream_t)> of libstdc++, by that library's binary
// interface. Its own header would not do: custash may be built with another library.
class Filter {
 public:
  explicit Filter(const void* function);
  ~Filter();
  Filter(const Filter&) = delete;
  Filter& operator=(const Filter&) = delete;

  [[nodiscard]] bool matches(Stream stream) const;

 private:
  struct Function {
    void* functor[2];
    bool (*manage)(void* to, const void* from, int operation);
    bool (*invoke)(const void* functor, Stream* stream);
  };

  Function copy_{};
};

struct Key {
  int device;
  std::uint64_t id[2];
  auto operator<=>(const Key&) const = default;
};

enum class State { Free, InUse, Resting };  // Resting: freed, but other streams use it

struct Block {
  std::size_t bytes = 0;
  Address segment = 0;
  Stream stream = nullptr;
  State state = State::Free;
  std::vector<Stream> others;  // that use it as well
};

class Pools {
 public:
  using Blocks = std::map<Address, Block>;
  using Segments = std::vector<Address>;  // that the caller frees

  // Requests that the filter matches go to the pool, the latest of such pools first. Blocks
  // that rest are returned if no other pool takes requests: the caller makes their streams
  // wait, and calls rested().
  Blocks begin(const Key& key, const void* filter);
  void rested(Address address);
  void end(const Key& key);
  // A pool is used once for each begin().
  Segments release(const Key& key);

  // The pool that takes the request.
  std::optional<Key> find(std::size_t bytes, int device, Stream stream);
  // 0: it needs a segment. `at` other than 0: the block is to begin there.
  Address take(const Key& key, std::size_t bytes, Stream stream, Address at);
  // A segment, and the first block in it.
  void add(const Key& key, Address segment, std::size_t size, Stream stream, std::size_t bytes);
  // False: the address is of no pool.
  bool free(Address address, Segments* empty);
  bool record(Address address, Stream stream);

  template <typename Visit>
  void each(Visit visit) {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, pool] : pools_)
      for (const auto& [address, block] : pool.blocks)
        visit(key, address, block);
  }

  int uses(const Key& key);

 private:
  struct Pool {
    int uses = 0;
    Blocks blocks;
    std::set<std::tuple<Stream, std::size_t, Address>> free;
  };

  struct Active {
    Key key;
    std::shared_ptr<const Filter> filter;
  };

  // A copy: a filter may call CUDA.
  std::vector<Active> active();
  static void set_free(Pool* pool, Blocks::iterator at);
  static void set_used(Pool* pool, Blocks::iterator at, Address from, std::size_t bytes);
  static void give(Pool* pool, Blocks::iterator at);
  // Segments without a block in use. No segment needs a resting block once its pool has ended.
  Segments take_empty(const Key& key);
  Pool* pool_of(Address address, State state, Blocks::iterator* at, Key* key);

  std::mutex mutex_;
  std::map<Key, Pool> pools_;
  std::map<Address, Key> segments_;
  std::vector<Active> active_;
  // Order: none. A thread that has a pool's block, or allocates for one, came after the begin.
  std::atomic<bool> any_{false};
};

}  // namespace custash::torch
