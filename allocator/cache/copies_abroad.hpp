// SPDX-License-Identifier: MIT
// CopiesAbroad: copies that streams of other contexts make from or to blocks of one. Without
// custash, the free of such a block waits for them if the devices have no access to each other.
// Own lock (rank CopiesAbroad), never held across a driver call.
#pragma once

#include "allocator/order/event.hpp"
#include "allocator/order/timeline.hpp"

#include <atomic>
#include <vector>

namespace custash {

class CopiesAbroad {
 public:
  // Without the lock.
  [[nodiscard, gnu::always_inline]] bool any() const { return count_.load() != 0; }

  // After the copy's call: the last thing that `stream` of `by` holds.
  void note(Address touched, Timeline& by, StreamState& stream_state);

  // Waits for those that touch this block.
  Status wait_for(Address base, Bytes size);

  void reset_lock_after_fork() { mutex_.reset_after_fork(); }

 private:
  struct Copy {
    Address touched = 0;
    const StreamState* stream_state = nullptr;
    HostUse use;        // an event behind it; or, where none could be had,
    Position position;  // one that covers it
    std::uint64_t number = 0;

    [[nodiscard]] bool over() const;
  };

  bool keep(Copy copy) noexcept;  // false: there is no host memory for it
  std::vector<Copy> all();
  void drop(std::uint64_t number);

  std::atomic<std::size_t> count_{0};
  Mutex mutex_{LockRank::CopiesAbroad};
  std::vector<Copy> copies_ GUARDED_BY(mutex_);
  std::uint64_t last_ GUARDED_BY(mutex_) = 0;
};

}  // namespace custash
