// SPDX-License-Identifier: MIT
#include "tests/property/execute.hpp"

#include "allocator/mutex.hpp"
#include "tests/property/world.hpp"

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>

namespace custash::property {
namespace {

int entries_with_lock_held = 0;

// CUSTASH_TRACE: every operation and every announcement in order, for whoever hunts a
// violation.
class Tracer final : public sim::Observer {
 public:
  explicit Tracer(sim::RaceDetector& to) : to_(to) {}

  void on_reset() override { to_.on_reset(); }

  void on_submit(sim::OpId op,
                 sim::ThreadId thread,
                 std::span<const sim::OpId> predecessors,
                 std::span<const sim::Touch> touches,
                 const char* name) override {
    std::printf(
        "    op %llu %s by thread %u after", static_cast<unsigned long long>(op), name, thread);
    for (const sim::OpId before : predecessors)
      std::printf(" %llu", static_cast<unsigned long long>(before));
    std::printf("\n");
    to_.on_submit(op, thread, predecessors, touches, name);
  }

  void on_host_join(sim::ThreadId thread, std::span<const sim::OpId> completed) override {
    std::printf("    thread %u knows", thread);
    for (const sim::OpId op : completed)
      std::printf(" %llu", static_cast<unsigned long long>(op));
    std::printf("\n");
    to_.on_host_join(thread, completed);
  }

  void on_alloc(sim::ThreadId thread,
                sim::Origin origin,
                Address address,
                Bytes bytes,
                sim::OpId op) override {
    to_.on_alloc(thread, origin, address, bytes, op);
  }

  void on_free(sim::ThreadId thread,
               sim::Origin origin,
               Address address,
               Bytes bytes,
               sim::OpId op) override {
    to_.on_free(thread, origin, address, bytes, op);
  }

  void on_fault(sim::OpId op, const sim::Touch& touch, const char* why) override {
    to_.on_fault(op, touch, why);
  }

 private:
  sim::RaceDetector& to_;
};

bool tracing() {
  return std::getenv("CUSTASH_TRACE") != nullptr;
}

// Hands the program's commands to its threads, one after the other; a command may stand still
// inside one of its driver calls while others run.
class Baton {
 public:
  Baton(const Program& program, World& world, sim::RaceDetector& detector, Outcome& out)
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
    if (tracing()) std::printf("  %zu: %s\n", at, to_string(command).c_str());
    const bool alone =
        program_.synced || program_.threads == 1 || inside_ || steps_of_capture(command);
    until_nested_ = alone ? 0 : command.entry;
    outer_ = command.thread;
    nested_ = command.nested;
    out_.codes[at] = world_.run(command, at);
    until_nested_ = 0;
  }

  // The beginning and the end of a capture and some calls beside it wait for each other,
  // briefly: none of them may stand still here.
  static bool steps_of_capture(const Command& command) {
    return command.op == Op::CaptureBegin || command.op == Op::CaptureEnd ||
           command.op == Op::DestroyStream || command.op == Op::EventWait;
  }

  // The lock is held by this thread, in work().
  void nest() {
    inside_until_ = next_;
    while (inside_until_ < program_.commands.size() &&
           inside_until_ < next_ + static_cast<std::size_t>(nested_)) {
      const Command& inner = program_.commands[inside_until_];
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

  const Program& program_;
  World& world_;
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

const char* name_of(Violation kind) {
  static const char* const kNames[] = {
      "none", "race", "hang", "code", "overlap", "leak", "statistics", "lock-held", "crash"};
  return kNames[static_cast<int>(kind)];
}

std::string to_string(const Setup& setup) {
  if (setup.bare) return "bare";
  const Config& c = setup.config;
  return std::string("backing:") + (c.backing == Backing::Driver ? "driver" : "vmm") +
         ",one_lane:" + (c.one_lane ? "true" : "false") +
         ",run_ahead:" + std::to_string(c.run_ahead_percent) +
         " context_events=" + (setup.context_events ? "yes" : "no") +
         " fast=" + (setup.fast ? "yes" : "no") + " tight=" + (setup.tight ? "yes" : "no") +
         " advance=" + (setup.advance == sim::Advance::Told ? "told" : "seeded") +
         " schedule=" + std::to_string(setup.seed);
}

Outcome execute(const Program& program, const Setup& setup) {
  static sim::RaceDetector& detector = *new sim::RaceDetector;
  static Tracer& tracer = *new Tracer(detector);
  if (tracing()) {
    sim::set_observer(&tracer);
  } else {
    sim::set_observer(&detector);
  }
  Outcome out;
  out.codes.assign(program.commands.size(), CUDA_SUCCESS);
  World world(setup, detector);
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
