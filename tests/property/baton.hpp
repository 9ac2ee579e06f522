// SPDX-License-Identifier: MIT
// Baton: runs a program's commands in their order on real threads, with real thread-local
// state, and counts driver calls with a lock held.
#pragma once

#include "allocator/base/mutex.hpp"
#include "tests/property/world_base.hpp"

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace custash::property {

// Hands the program's commands to its threads, one after the other; a command may stand still
// inside one of its driver calls while others run.
class Baton {
 public:
  Baton(const Program& program, WorldBase& world, sim::RaceDetector& detector, Outcome& out)
      : program_(program), world_(world), detector_(detector), out_(out) {
    current_ = this;
    entries_with_lock_held_ = 0;
  }

  ~Baton() { current_ = nullptr; }

  Baton(const Baton&) = delete;
  Baton& operator=(const Baton&) = delete;

  void run() {
    const sim::ThreadId main = sim::this_thread();
    if (program_.threads == 1) {
      while (!over())
        one();
      return;
    }
    std::vector<sim::ThreadId> ids(static_cast<std::size_t>(program_.threads));
    std::vector<std::thread> threads;
    for (int index = 0; index < program_.threads; ++index) {
      threads.emplace_back([&, index] {
        sim::ThreadId before = main;
        for (bool again = true; again;) {
          std::thread([&] { again = live(index, before); }).join();
          ids[static_cast<std::size_t>(index)] = before;
          if (!again) break;
          const std::unique_lock lock(mutex_);
          ++next_;  // the thread is over, with all that it leaves behind
        }
      });
    }
    for (std::thread& thread : threads)
      thread.join();
    for (const sim::ThreadId id : ids)
      detector_.thread_sync(id, main);
  }

  static bool lock_was_held() { return entries_with_lock_held_ != 0; }

  // At each driver entry.
  static void on_entry() {
    entries_with_lock_held_ += held_locks();
    if (until_nested_ == 0 || --until_nested_ != 0 || held_locks() != 0) return;
    current_->nest();
  }

 private:
  // One thread, after `before` or started by it. True: another one takes its place.
  bool live(int index, sim::ThreadId& before) {
    {
      std::unique_lock lock(mutex_);
      turned_.wait(lock, [&] { return started_ >= index; });
      detector_.thread_sync(before, sim::this_thread());
      before = sim::this_thread();
      if (started_ == index) ++started_;
    }
    turned_.notify_all();
    return work(index);
  }

  bool work(int index) {
    std::unique_lock lock(mutex_);
    for (;;) {
      turned_.wait(
          lock, [&] { return started_ == program_.threads && (over() || is_turn_of(index)); });
      if (over()) return false;
      if (program_.commands[next_].op == Op::EndThread) return true;
      const sim::ThreadId self = sim::this_thread();
      if (program_.synced && last_ >= 0 && last_ != static_cast<int>(self)) {
        detector_.thread_sync(static_cast<sim::ThreadId>(last_), self);
      }
      last_ = static_cast<int>(self);
      one();
      turned_.notify_all();
    }
  }

  bool over() const { return next_ >= program_.commands.size() || world_.failed(); }

  bool is_turn_of(int index) const {
    return program_.commands[next_].thread == index && (!inside_ || next_ < inside_until_);
  }

  void one() {
    const std::size_t at = next_++;
    const Command& command = program_.commands[at];
    const bool alone =
        program_.synced || program_.threads == 1 || inside_ || steps_of_capture(command) ||
        command.sets != 0;  // others may wait on the host for what it is about to set
    until_nested_ = alone ? 0 : command.entry;
    outer_ = command.thread;
    nested_ = command.nested;
    out_.codes[at] = world_.run(command, at);
    until_nested_ = 0;
  }

  // The lock is held by this thread, in work().
  void nest() {
    inside_until_ = next_;
    while (inside_until_ < program_.commands.size() &&
           inside_until_ < next_ + static_cast<std::size_t>(nested_)) {
      const Command& inner = program_.commands[inside_until_];
      // What spins for a later launch must not hold up the call that stands here. The end of a
      // context waits until other threads' calls are over, so that it runs inside none of them.
      if (inner.thread == outer_ || inner.needs != 0 || steps_of_capture(inner) ||
          inner.op == Op::DestroyContext)
        break;
      ++inside_until_;
    }
    if (inside_until_ == next_) return;
    std::unique_lock lock(mutex_, std::adopt_lock);
    inside_ = true;
    turned_.notify_all();
    turned_.wait(lock, [&] { return over() || next_ >= inside_until_; });
    inside_ = false;
    lock.release();
  }

  static inline Baton* current_ = nullptr;
  static inline int entries_with_lock_held_ = 0;
  static inline thread_local int until_nested_ = 0;

  const Program& program_;
  WorldBase& world_;
  sim::RaceDetector& detector_;
  Outcome& out_;
  std::mutex mutex_;
  std::condition_variable turned_;
  std::size_t next_ = 0;
  bool inside_ = false;
  std::size_t inside_until_ = 0;
  int outer_ = 0;
  int nested_ = 0;
  int started_ = 0;
  int last_ = -1;
};

}  // namespace custash::property
