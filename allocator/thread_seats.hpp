// SPDX-License-Identifier: MIT
// ThreadSeats: what one thread remembers of the contexts and streams that it uses, and its
// racks there: a table asked with two or three loads. All seats are dropped at once, by a new
// epoch, when a stream or a context goes. Given back when the thread ends.
#pragma once

#include "allocator/cache/device_cache.hpp"

#include <array>
#include <cstdint>
#include <vector>

namespace custash {

struct Seat {
  std::uint64_t epoch = 0;      // of the allocator that it is of, when it was filled
  CUcontext context = nullptr;  // null for a named stream, whose handle says enough
  CUstream stream = nullptr;    // null for plain calls
  DeviceCache* cache = nullptr;
  Lane* lane = nullptr;
  Rack* rack = nullptr;  // null until something was allocated or freed there
};

class ThreadSeats {
 public:
  // The calling thread's; made at its first call.
  static ThreadSeats& mine() { return mine_ != nullptr ? *mine_ : make_mine(); }

  // The same, or null where there is none yet.
  static ThreadSeats* known() { return mine_; }

  // Null when it is not remembered.
  Seat* find(std::uint64_t epoch, CUcontext context, CUstream stream) {
    const std::size_t home = slot(context, stream);
    for (std::size_t i = 0; i < kProbes; ++i) {
      Seat& seat = seats_[(home + i) % kSeats];
      if (seat.stream == stream && seat.context == context && seat.epoch == epoch) return &seat;
    }
    return nullptr;
  }

  // The seat of a context's plain calls; nearly always the one that was asked for last.
  Seat* find_plain(std::uint64_t epoch, CUcontext context) {
    if (plain_->context == context && plain_->epoch == epoch && plain_->stream == nullptr)
      return plain_;
    Seat* found = find(epoch, context, nullptr);
    if (found != nullptr) plain_ = found;
    return found;
  }

  // Remembers it, where an older one is forgotten.
  Seat* remember(const Seat& seat);

  // Its own stream has a lane there, to be given back at its end.
  void note_own_stream(DeviceCache* cache);

  // The seat's rack, made at need.
  Rack* rack(Seat& seat) { return seat.rack != nullptr ? seat.rack : make_rack(seat); }

  // Tells per-thread streams apart.
  [[nodiscard]] std::uint64_t number() const { return number_; }

  ~ThreadSeats();

 private:
  static constexpr std::size_t kSeats = 256;
  static constexpr std::size_t kProbes = 4;

  ThreadSeats();
  static ThreadSeats& make_mine();
  Rack* make_rack(Seat& seat);

  // Handles are addresses: the low bits say little.
  static std::size_t slot(CUcontext context, CUstream stream) {
    const auto bits =
        reinterpret_cast<std::uintptr_t>(context) ^ reinterpret_cast<std::uintptr_t>(stream);
    return (bits ^ (bits >> 7U) ^ (bits >> 15U)) % kSeats;
  }

  // Found without a call; a pointer alone may stand in the static block of a library that is
  // loaded late.
  static constinit thread_local ThreadSeats* mine_ __attribute__((tls_model("initial-exec")));

  std::uint64_t number_;
  std::array<Seat, kSeats> seats_{};
  Seat* plain_ =
      &nobody_;  // the latest plain one: its place in seats_ may have been given away
  Seat nobody_;
  std::vector<Rack*> racks_;  // in all caches
  std::vector<DeviceCache*> own_streams_;
};

}  // namespace custash
