// SPDX-License-Identifier: MIT
// PeerProcesses: what an allocator does for other processes and asks of them. Thread safe; no
// state of its own.
#pragma once

#include "allocator/allocator.hpp"
#include "allocator/base/whole_blocks.hpp"
#include "allocator/heap/page.hpp"

#include <memory>
#include <span>

namespace custash {

// After this, a process that makes room and goes no further, stopped perhaps, counts no more.
inline constexpr Nanoseconds kPassOver = 10'000'000'000;

// What came of a request for room.
enum class Room : std::uint8_t {
  Made,    // there may be enough now
  Later,   // others work, and together hold enough
  Little,  // together they cannot release enough
  Nobody,  // no other process makes room
};

// How other processes are asked for memory (interpose/service/room.hpp). Null: they are not.
struct Neighbours {
  // For `bytes` on the device, which is current: what they cache, then yield().
  Room (*ask)(int device,
              Bytes bytes,
              Nanoseconds patience,
              std::shared_ptr<void>* turn) = nullptr;
  // Those with yield_after go to sleep: waits at most this long for them, 0: none does. Before
  // it asks it takes a turn, if `turn` has none.
  Room (*yield)(int device,
                Bytes bytes,
                Nanoseconds patience,
                std::shared_ptr<void>* turn) = nullptr;
  // One process at a time makes room on a device. A turn lasts as long as the object; null:
  // another process has one.
  std::shared_ptr<void> (*take_turn)(std::span<const int> devices) = nullptr;
  bool (*is_taken)(std::span<const int> devices) = nullptr;
};

// A process with yield_after waits for the others' work in an allocation, too: it has given its
// memory up for them and grows again, and its launches wait for them while it sleeps. It keeps
// its turn only until the allocation has been tried, so that others may come first.
class RoomWait {
 public:
  RoomWait(Allocator::State& state, int device, Bytes bytes)
      : state_(state), device_(device), bytes_(bytes) {}

  // Waits until there may be room. False: there will be none.
  bool again();

 private:
  Allocator::State& state_;
  const int device_;
  const Bytes bytes_;
  std::shared_ptr<void> turn_;
  int tries_ = 0;
};

class PeerProcesses {
 public:
  explicit PeerProcesses(Allocator& core) : state_(core.state()) {}

  // As Allocator::trim, from a thread without a context: returns the bytes released. During a
  // capture nothing does.
  Bytes give_back(int device, Bytes bytes);

  // Set once, before any allocation.
  void set_neighbours(const Neighbours& neighbours);

  // For a call that the driver serves. Its device must be current.
  [[nodiscard]] RoomWait room_wait(int device, Bytes bytes) const {
    return {state_, device, bytes};
  }

  // Memory that others use. offer(): a handle names the block, so that others may open it.
  // pin(): somebody has it open, until unpin(). A free between the two does not wait, and the
  // memory is not handed out again before the last unpin(). False: no live block with this id
  // begins at the address.
  bool offer(Address base, std::uint64_t buffer_id, ExportedBlock* out);
  bool pin(Address base, std::uint64_t buffer_id, ExportedBlock* out);
  void unpin(const ExportedBlock& block);

  // While one lives, the pages of the block stay, even if it is freed. One at a time.
  class HandingOver {
   public:
    explicit HandingOver(const ExportedBlock& block);
    ~HandingOver();
    HandingOver(const HandingOver&) = delete;
    HandingOver& operator=(const HandingOver&) = delete;

    // False: it was freed before, or its context has ended.
    [[nodiscard]] bool begun() const { return begun_; }

   private:
    ContextCache* const cache_;
    const bool begun_;
  };

  // Memory leaves the sight of its context's streams: another process, a network card or
  // another interface is about to use this live block. There no stream waits for the block's
  // former owners. So the host waits for their work, unless it is over.
  Status quiet(Address base);

  // How custash finds out that a network or storage card is to pin memory of the process: see
  // WholeBlocks. With backing:auto. Set once, before any allocation.
  void set_registering(WholeBlocks::Ask* ask);

  // The same of all memory of the context, for good: a network card may use any of it.
  void let_cards_reach(CUcontext context);

  // `engine` works on memory of the process from now on, and custash does not see its work. So
  // each free waits for the device, and the process stays awake. A literal.
  void let_engine_reach(const char* engine);

 private:
  Allocator::State& state_;
};

}  // namespace custash
