// SPDX-License-Identifier: MIT
// PinningWorkers: makes pieces of host memory by several threads, in the order in which they
// were added. Each thread takes the next stripe of 16 MiB and touches it. The last one of a
// piece calls `done`, which registers the piece, while the others touch further stripes. So
// cores and driver work at the same time. One owner adds, starts, waits and stops.
// decision 13
#pragma once

#include "allocator/base/units.hpp"
#include "pinned/first_touch.hpp"
#include "pinned/host_memory.hpp"

#include <atomic>
#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

namespace custash {

// Host memory of a sleep store that is pinned, or will be.
struct PinnedPiece {
  enum class State : int { Mapped, Pinned, Pageable, NoMemory, NotPinned };

  CUcontext context = nullptr;
  HostMemoryRange range;
  std::atomic<State> state{State::Mapped};
  // ---- For the workers.
  std::atomic<std::size_t> untouched{0};  // stripes
  std::atomic<bool> there{true};          // each stripe so far could be touched
  std::size_t end = 0;                    // the number of the first stripe behind it; 0: none
};

class PinningWorkers {
 public:
  using Touch = bool (*)(Address begin, Address end);
  // Reports what has become of the piece. Called without a lock.
  using Done = std::function<PinnedPiece::State(const PinnedPiece& piece)>;

  explicit PinningWorkers(Done done) : done_(std::move(done)) {}

  ~PinningWorkers() { stop(); }

  PinningWorkers(const PinningWorkers&) = delete;
  PinningWorkers& operator=(const PinningWorkers&) = delete;

  // For tests; before any piece is added.
  void set_touch(Touch touch) { touch_ = touch; }

  // ---- Between stop() and start().
  void add(PinnedPiece& piece);

  [[nodiscard]] const std::vector<PinnedPiece*>& pieces() const { return pieces_; }

  // `threads`: as for first_touch(). The caller is one of them whenever it waits.
  void start(unsigned threads);

  // Does what no thread has begun of the piece and of those before it, then waits for the rest.
  // Makes a piece that was not added.
  PinnedPiece::State wait(PinnedPiece& piece);

  // No thread works any more. A piece that is not made stays mapped, to be added again.
  void stop();

 private:
  struct Stripe {
    PinnedPiece* piece;
    Address begin;
    Address end;
  };

  void touch(const Stripe& stripe);

  Done done_;
  Touch touch_ = touch_range;
  std::vector<PinnedPiece*> pieces_;
  std::vector<Stripe> stripes_;
  std::atomic<std::size_t> next_{0};  // the stripe that the next thread takes
  std::vector<std::thread> helpers_;
};

}  // namespace custash
