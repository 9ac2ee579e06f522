// SPDX-License-Identifier: MIT
// NamedStreams: the streams that were named for buffers. A buffer that is freed behind such
// streams is safe once their work up to then is over. Guarded by the host cache's lock; a
// caller that holds it passes it.
#pragma once

#include "allocator/allocator.hpp"
#include "allocator/base/mutex.hpp"
#include "allocator/order/event.hpp"

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

namespace custash {

struct Block;
struct HostPool;

class NamedStreams {
 public:
  using StreamUse = std::pair<CUstream, NullStream>;

  // A buffer that is being freed, and its uses by named streams.
  struct Uses {
    Block* block = nullptr;
    std::uint64_t buffer_id = 0;
    std::vector<HostUse> streams;
  };

  explicit NamedStreams(Mutex& mutex) : mutex_(mutex) {}

  // `stream` uses the block, which is in use.
  void name(const Lock& lock, Block* block, CUstream stream, NullStream null);
  std::vector<StreamUse> named_for(Block* block) EXCLUDES(mutex_);
  // Puts the block in limbo, until poll() finds all its uses over.
  void put_behind(const Lock& lock, Uses leaving);
  void forget(const Lock& lock, Block* block);
  void forget(const Lock& lock, const HostPool& pool);

  void poll() EXCLUDES(mutex_);

 private:
  Mutex& mutex_;
  std::unordered_map<Block*, std::vector<StreamUse>> streams_
      GUARDED_BY(mutex_);                                // named for buffers in use
  std::vector<Uses> behind_streams_ GUARDED_BY(mutex_);  // in limbo, behind such streams
};

}  // namespace custash
