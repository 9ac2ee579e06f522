// SPDX-License-Identifier: MIT
#include "tests/property/pinned_execute.hpp"

#include "allocator/mutex.hpp"

#include <condition_variable>
#include <mutex>
#include <thread>

namespace custash::property {
namespace {

int entries_with_lock_held = 0;

// Hands the program's commands to its threads, one after the other; a command may stand still
// inside one of its driver calls while others run.
class Baton {
 public:
  Baton(const PinProgram& program,
        PinnedWorld& world,
        sim::RaceDetector& detector,
        Outcome& out)
      : program_(program), world_(world), detector_(detector), out_(out) {
    current_ = this;
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
        {
          std::unique_lock lock(mutex_);
          turned_.wait(lock, [&] { return started_ == index; });
          ids[static_cast<std::size_t>(index)] = sim::this_thread();
          detector_.thread_sync(main, sim::this_thread());
          ++started_;
        }
        turned_.notify_all();
        work(index);
      });
    }
    for (std::thread& thread : threads)
      thread.join();
    for (const sim::ThreadId id : ids)
      detector_.thread_sync(id, main);
  }

  // At each driver entry.
  static void on_entry() {
    entries_with_lock_held += held_locks();
    if (until_nested_ == 0 || --until_nested_ != 0 || held_locks() != 0) return;
    current_->nest();
  }

 private:
  void work(int index) {
    std::unique_lock lock(mutex_);
    for (;;) {
      turned_.wait(
          lock, [&] { return started_ == program_.threads && (over() || is_turn_of(index)); });
      if (over()) break;
      const sim::ThreadId self = sim::this_thread();
      if (program_.synced && last_ >= 0 && last_ != static_cast<int>(self))
        detector_.thread_sync(static_cast<sim::ThreadId>(last_), self);
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
    const PinCommand& command = program_.commands[at];
    const bool alone =
        program_.synced || program_.threads == 1 || inside_ || steps_of_capture(command);
    until_nested_ = alone ? 0 : command.entry;
    outer_ = command.thread;
    nested_ = command.nested;
    out_.codes[at] = world_.run(command, at);
    until_nested_ = 0;
  }

  // These wait for each other, briefly: none of them may stand still here.
  static bool steps_of_capture(const PinCommand& command) {
    return command.op == PinOp::CaptureBegin || command.op == PinOp::CaptureEnd ||
           command.op == PinOp::DestroyStream || command.op == PinOp::EventWait;
  }

  // The lock is held by this thread, in work().
  void nest() {
    inside_until_ = next_;
    while (inside_until_ < program_.commands.size() &&
           inside_until_ < next_ + static_cast<std::size_t>(nested_)) {
      const PinCommand& inner = program_.commands[inside_until_];
      if (inner.thread == outer_ || steps_of_capture(inner)) break;
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
  static inline thread_local int until_nested_ = 0;

  const PinProgram& program_;
  PinnedWorld& world_;
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

}  // namespace

Outcome execute(const PinProgram& program, const PinSetup& setup) {
  static sim::RaceDetector& detector = *new sim::RaceDetector;
  sim::set_observer(&detector);
  Outcome out;
  out.codes.assign(program.commands.size(), CUDA_SUCCESS);
  PinnedWorld world(setup, detector);
  entries_with_lock_held = 0;
  sim::set_entry_check(Baton::on_entry);
  Baton(program, world, detector, out).run();
  // What is told first is what is wrong first: a race before what it may have led to.
  const auto check_races = [&] {
    // Where an allocation failed, what should have ordered the program may be missing with it.
    const bool wrong =
        setup.tight ? detector.count(sim::Report::AllocatorFault) != 0 : !detector.clean();
    if (wrong) world.fail(Violation::Race, detector.text());
  };
  check_races();
  world.finish();
  sim::set_entry_check(nullptr);
  check_races();
  if (entries_with_lock_held != 0)
    world.fail(Violation::LockHeld, "the driver was entered with a lock held");
  out.kind = world.kind();
  out.text = world.text();
  return out;
}

}  // namespace custash::property
