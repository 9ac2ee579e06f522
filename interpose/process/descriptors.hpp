// SPDX-License-Identifier: MIT
// Descriptors: the file descriptors that custash keeps in the program. A forked child closes
// its copies at once, because a peer takes the end of a connection for the end of this process.
// They avoid low numbers, which programs count on: always those of the standard streams. A
// program may close one and give its number to a file of its own, which stays open. Lock free,
// in static storage.
#pragma once

#include <array>
#include <atomic>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace custash {

class Descriptors {
 public:
  static constexpr int kFrom = 512;  // the lowest number used, where the limits allow

  // The descriptor under its new number.
  int keep(int fd) noexcept {
    int high = fcntl(fd, F_DUPFD_CLOEXEC, kFrom);
    if (high < 0) high = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (high >= 0) {
      close(fd);
      fd = high;
    }
    for (auto& slot : slots_) {
      int empty = 0;
      if (!slot.held.compare_exchange_strong(empty, kFilling)) continue;
      slot.file = file_of(fd);
      slot.held.store(fd + 1);
      break;
    }
    return fd;
  }

  // Whether the number still means the file that was kept: the program may have closed it, and
  // opened a file of its own. A file for which there was no slot counts as ours.
  [[nodiscard]] bool is_own(int fd) const noexcept {
    if (fd < 0) return false;
    for (const auto& slot : slots_)
      if (slot.held.load() == fd + 1) return file_of(fd) == slot.file;
    return true;
  }

  // Forgets it; closing is the caller's.
  void drop(int fd) noexcept {
    if (fd < 0) return;
    for (auto& slot : slots_) {
      int held = fd + 1;
      if (slot.held.compare_exchange_strong(held, 0)) return;
    }
  }

  // Closes it, unless the program has given the number to a file of its own.
  void close_own(int fd) noexcept {
    if (fd < 0) return;
    for (auto& slot : slots_) {
      int held = fd + 1;
      const File file = slot.file;
      if (!slot.held.compare_exchange_strong(held, 0)) continue;
      if (file_of(fd) == file) close(fd);
      return;
    }
    close(fd);  // there was no slot for it
  }

  // In a forked child, which has one thread.
  void close_all() noexcept {
    for (auto& slot : slots_) {
      const int held = slot.held.exchange(0);
      if (held > 0 && file_of(held - 1) == slot.file) close(held - 1);
    }
  }

 private:
  static constexpr int kFilling = -1;

  struct File {
    dev_t device;
    ino_t inode;

    bool operator==(const File&) const = default;
  };

  static File file_of(int fd) noexcept {
    struct stat seen {};

    return fstat(fd, &seen) == 0 ? File{seen.st_dev, seen.st_ino} : File{};
  }

  struct Slot {
    std::atomic<int> held{0};  // the number and one; 0: empty
    File file{};
  };

  std::array<Slot, 1024> slots_{};
};

// All that custash keeps open.
Descriptors& descriptors() noexcept;

}  // namespace custash
