// SPDX-License-Identifier: MIT
// Descriptors: the file descriptors that custash keeps in the program. A forked child closes
// its copies at once, because a peer takes the end of a connection for the end of this process.
// They avoid low numbers, which programs count on. Lock free, in static storage.
#pragma once

#include <array>
#include <atomic>

#include <fcntl.h>
#include <unistd.h>

namespace custash {

class Descriptors {
 public:
  static constexpr int kFrom = 512;  // the lowest number used, where the limits allow

  // The descriptor under its new number.
  int keep(int fd) noexcept {
    const int high = fcntl(fd, F_DUPFD_CLOEXEC, kFrom);
    if (high >= 0) {
      close(fd);
      fd = high;
    }
    for (auto& slot : slots_) {
      int empty = 0;
      if (slot.compare_exchange_strong(empty, fd + 1)) break;
    }
    return fd;
  }

  // Forgets it; closing is the caller's.
  void drop(int fd) noexcept {
    for (auto& slot : slots_) {
      int held = fd + 1;
      if (slot.compare_exchange_strong(held, 0)) return;
    }
  }

  void close_all() noexcept {
    for (auto& slot : slots_) {
      const int held = slot.exchange(0);
      if (held != 0) close(held - 1);
    }
  }

 private:
  std::array<std::atomic<int>, 1024> slots_{};  // the number and one; 0: empty
};

// All that custash keeps open.
Descriptors& descriptors() noexcept;

}  // namespace custash
