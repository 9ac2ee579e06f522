// SPDX-License-Identifier: MIT
// Who touches memory without submitting work: another process that imported it, a network card,
// a kernel that takes an address from a mailbox while it runs. Nothing of them is in the order
// of a stream. They know what a host thread told them, no more; the race detector keeps a clock
// for each. For tests, which call these at the points where the program would send its
// messages.
#pragma once

#include "tests/sim/sim.hpp"

#include <string>
#include <vector>

namespace custash::sim {

// Another process, or a card. Of one world: `reset` ends it.
class Actor {
 public:
  explicit Actor(std::string name);

  // The calling thread sends a message to the actor (a handle, a work request). What the thread
  // knows to be over comes before what the actor does from now on.
  void told() const;
  // The calling thread hears from it (a completion): what the actor has done is over.
  void note_result() const;

  // The actor registers or opens the memory: from then on it uses what lies there now, as a
  // card does, whatever is mapped there later.
  void opens(Address address, Bytes bytes);
  void closes();  // all that it has open
  // It reads or writes all that it has open. A fault where that memory was moved or taken back.
  void touches(bool write) const;
  // It reads or writes at an address as it is mapped now.
  void touches(Address address, Bytes bytes, bool write) const;

 private:
  ActorId id_ = 0;
  std::string name_;
  std::vector<Touch> open_;
};

// The calling thread puts an address into the mailbox of a kernel that may be running, and the
// kernel uses it. False, and nothing happens, when the kernel is over or cannot have begun.
bool hand_to_running(OpId kernel, const Access& access);

}  // namespace custash::sim
