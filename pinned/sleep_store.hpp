// SPDX-License-Identifier: MIT
// SleepStore: where the contents of sleeping device memory are kept. Up to option sleep_pinned:
// pinned memory, which stays for the next time. Then pageable memory, up to sleep_memory: and
// as long as the machine has some. Beyond that a file in sleep_dir:. Pinned memory is reserved
// and mapped by take(), and made by PinningWorkers. Thread safe; a piece has one user, and one
// thread at a time has pieces made, and copies (Sleep).
#pragma once

#include "allocator/base/config.hpp"
#include "allocator/base/mutex.hpp"
#include "allocator/memory/host_store.hpp"
#include "pinned/first_touch.hpp"
#include "pinned/host_limits.hpp"
#include "pinned/host_memory.hpp"
#include "pinned/pinning_workers.hpp"
#include "pinned/sleep_file.hpp"

#include <atomic>
#include <string>

namespace custash {

// The system's calls, as far as tests replace them.
struct PinnedCalls {
  Bytes (*available)() = available_host_memory;
  PinningWorkers::Touch touch = touch_range;
};

class SleepStore final : public HostStore {
 public:
  SleepStore(const Driver& driver, const Config& config)
      : config_(config),
        memory_(driver, config),
        file_(config.sleep_dir),
        workers_([this](const PinnedPiece& piece) { return touched(piece); }) {}

  ~SleepStore() override { give_buffer(); }

  SleepStore(const SleepStore&) = delete;
  SleepStore& operator=(const SleepStore&) = delete;

  void set_calls(const FileCalls& calls) { file_.set_calls(calls); }

  void set_pinned_calls(const PinnedCalls& calls) {
    available_ = calls.available;
    workers_.set_touch(calls.touch);
  }

  // Asks the machine, the control group and the file system.
  bool has_room(Bytes bytes, std::string* why) override;
  bool take(CUcontext context, Bytes bytes, HostPiece* out, std::string* why) override;
  void give(CUcontext context, const HostPiece& piece) override;

  void want(const HostPiece& piece) override;
  bool make(std::string* why) override;
  bool wait(const HostPiece& piece, std::string* why) override;

  void stop() override { workers_.stop(); }

  // Nothing while the machine, or the control group, is short of memory.
  Bytes keeps() override { return is_short() ? 0 : config_.sleep_pinned; }

  bool is_short() override;

  std::byte* buffer() override { return reinterpret_cast<std::byte*>(buffer_); }

  bool write(const HostPiece& piece, Bytes from, Bytes bytes, std::string* why) override;
  bool read(const HostPiece& piece, Bytes from, Bytes bytes, std::string* why) override;

  bool flush(std::string* why) override { return file_.flush(why); }

 private:
  // What may still be taken of host memory.
  [[nodiscard]] Bytes host_room() const;
  // What the machine has left beside memory that is mapped and not touched yet.
  [[nodiscard]] Bytes machine_room() const;
  bool take_pinned(CUcontext context, Bytes bytes, HostPiece* out);
  PinnedPiece::State touched(const PinnedPiece& piece);
  void give_pinned(CUcontext context, const PinnedPiece& piece);
  bool take_pageable(Bytes bytes, HostPiece* out);
  bool take_of_file(Bytes bytes, HostPiece* out, std::string* why) EXCLUDES(mutex_);
  void give_to_file(const HostPiece& piece) EXCLUDES(mutex_);
  void give_buffer();

  const Config& config_;
  HostMemory memory_;
  Bytes (*available_)() = available_host_memory;
  SleepFile file_;                      // its pieces are taken and given under the lock
  std::atomic<bool> registers_{false};  // the driver has registered a piece before
  std::atomic<Bytes> untouched_{0};     // of pinned_: mapped, but not in memory yet
  std::atomic<Bytes> pinned_{0};
  std::atomic<Bytes> pageable_{0};
  Mutex mutex_{LockRank::Pinned};
  Bytes in_file_ GUARDED_BY(mutex_) = 0;
  Address buffer_ = 0;  // made and released under the lock; there while a piece of the file is
  PinningWorkers workers_;
};

}  // namespace custash
