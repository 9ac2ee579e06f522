// SPDX-License-Identifier: MIT
// DeviceBudget: the bytes that all contexts of one device together hold from the driver, and
// the limit on them. They count towards the quota of the whole process as well. Lock free.
#pragma once

#include "allocator/base/check.hpp"
#include "allocator/base/quota.hpp"
#include "allocator/base/units.hpp"

#include <algorithm>
#include <atomic>

namespace custash {

class DeviceBudget {
 public:
  // Before memory is requested from the driver by the call. False where that would exceed a
  // limit.
  bool take(Bytes bytes, Quota::Call* call) {
    if (!quota_.take(bytes, call)) return false;
    Bytes held = held_.load();
    while (bytes <= room(held))
      if (held_.compare_exchange_weak(held, held + bytes)) return true;
    quota_.give(bytes);
    call->end();
    return false;
  }

  // The memory is there already.
  void add(Bytes bytes) {
    held_.fetch_add(bytes);
    quota_.add(bytes);
  }

  // Memory was released, or the driver refused it.
  void give(Bytes bytes) {
    CUSTASH_ASSERT(bytes <= held_.load());
    held_.fetch_sub(bytes);
    quota_.give(bytes);
  }

  [[nodiscard]] Bytes room() const { return std::min(own_room(), quota_.room()); }

  // As far as its own limit goes.
  [[nodiscard]] Bytes own_room() const { return room(held_.load()); }

  // What could be taken if `free` bytes of it were given before.
  [[nodiscard]] Bytes room_with(Bytes free) const {
    return room() > ~free ? ~0ULL : room() + free;
  }

  [[nodiscard]] Bytes held() const { return held_.load(); }

  [[nodiscard]] Bytes limit() const { return limit_.load(); }

  void set_limit(Bytes bytes) { limit_.store(bytes); }

  // The least of the two limits: the size of the device, for the program.
  [[nodiscard]] Bytes size() const { return std::min(limit(), quota_.limit()); }

  Quota& quota() { return quota_; }

 private:
  [[nodiscard]] Bytes room(Bytes held) const {
    return limit_.load() - std::min(limit_.load(), held);
  }

  std::atomic<Bytes> held_{0};
  std::atomic<Bytes> limit_{~0ULL};
  Quota quota_;
};

}  // namespace custash
