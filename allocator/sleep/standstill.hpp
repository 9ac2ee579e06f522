// SPDX-License-Identifier: MIT
// Standstill: one attempt to keep the process still, so that its memory may be moved. From
// begin() on new submissions wait at the sleep gate; after it no work runs and no call needs
// the memory. Its destructor opens the gate. Belongs to one thread, which has the
// turn (Sleeping::Turn). Sleep, deep trims and the return of idle memory each make one.
// decision 21. Proved: tests/models/sleep.pml.
#pragma once

#include "allocator/allocator.hpp"
#include "allocator/base/scope.hpp"
#include "allocator/registry.hpp"
#include "allocator/sleep/sleep.hpp"

#include <list>
#include <string>
#include <vector>

namespace custash {

// Contexts whose end has not begun. It waits until this object is gone.
class LivingContexts {
 public:
  // False: see visit_living.
  bool add(const std::vector<ContextCache*>& caches);

  [[nodiscard]] const std::vector<ContextCache*>& caches() const { return caches_; }

 private:
  std::list<ContextUse> uses_;  // empty, it needs no memory: waking may have none
  std::vector<ContextCache*> caches_;
};

class Standstill {
 public:
  Standstill(Allocator::State& state, const SleepRequest& request)
      : state_(state), driver_(state.driver), request_(request) {
    contexts_.add(state.all());
  }

  ~Standstill() { open(); }

  Standstill(const Standstill&) = delete;
  Standstill& operator=(const Standstill&) = delete;

  // Why the process can never be kept still now; empty: it may be tried.
  static std::string refusal(Allocator::State& state);

  // Closes the gate and waits until nothing runs. Empty: done. Else why not.
  std::string begin(bool asleep_too = false);

  // Opens the gate. The contexts stay until the end of the object.
  void open();

  // How long the gate has been closed.
  [[nodiscard]] Nanoseconds lasts() const { return driver_.now() - closed_at_; }

  [[nodiscard]] bool was_asleep() const { return from_ == SleepState::Asleep; }

  // The program waits at the gate, and the request is for an idle process.
  [[nodiscard]] bool disturbed() const;

  // The gate stays closed, for `bytes` that are away in all: the next submission calls `wake`.
  // Nothing happens if the gate could not be closed.
  void leave_asleep(Bytes bytes, void (*wake)(void* state));

  [[nodiscard]] const std::vector<ContextCache*>& caches() const { return contexts_.caches(); }

  // Those of the requested device, with the context current. False: not all of them.
  template <typename Visit>
  bool each_chosen(Visit visit);

 private:
  // `asleep_too`: also if memory is away already; an attempt that fails then leaves the process
  // asleep, as it was.
  std::string close(bool asleep_too);
  std::string wait_until_idle();
  // What asked for it must not wait now.
  [[nodiscard]] bool gives_way() const;

  Allocator::State& state_;
  const Driver& driver_;
  const SleepRequest& request_;
  LivingContexts contexts_;
  SleepState from_ = SleepState::Awake;  // what the state was before
  bool closed_ = false;
  Nanoseconds closed_at_ = 0;
};

template <typename Visit>
bool Standstill::each_chosen(Visit visit) {
  for (ContextCache* cache : caches()) {
    if (request_.device >= 0 && cache->device() != request_.device) continue;
    const CurrentContext current(driver_, cache->context());
    if (!current.status().ok() || !visit(*cache)) return false;
  }
  return true;
}

// Waking brings the memory of a process that sleeps back, whatever it takes. By the one thread
// that made the gate's state Waking. Returns when the memory is there, or when the process
// ends. `state`: the allocator's.
void wake_up(void* state);

// Releases what kept contents and is not worth keeping; contents that sleep stay. By the thread
// that has the turn.
void shrink_saved(Allocator::State& state);

// Adds an amount to the text of an answer, unless it is 0. The separator comes between two.
void append(std::string* text, const char* separator, Bytes bytes, const char* of_what);

}  // namespace custash
