// SPDX-License-Identifier: MIT
// Machine: one thread's tensors, and what each command does to them. The same code computes on
// the CPU and on CUDA; only there do streams and their order matter. Every use of a tensor's
// memory waits for the use before, whatever stream that was on, and is recorded where the
// stream is not its own.
#pragma once

#include "tests/harness/detector.hpp"
#include "tests/harness/stress_run.hpp"
#include "tests/harness/stress_workers.hpp"

#include <array>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>

namespace custash::harness::stress {

enum class Where { Cpu, Cuda };

// The last use of a storage: views share it.
struct LastUse {
  std::optional<Stream> stream;
  Event event;
};

struct Slot {
  Tensor tensor;
  int device = 0;  // also where all is on the CPU, which has but one
  std::shared_ptr<LastUse> last;
};

// What threads send each other. Waits for a letter that the program sends, never for another.
class Letters {
 public:
  explicit Letters(const Program& program);

  void send(int letter, Slot slot);
  Slot receive(int letter);  // no tensor: nobody sends it
  void give_up();            // a thread has failed: nobody waits any more

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::set<int> expected_;
  std::map<int, Slot> letters_;
  bool given_up_ = false;
};

class Machine {
 public:
  Machine(Where where, Letters& letters, const Workers::Streams* streams, Plant plant)
      : where_(where), letters_(&letters), streams_(streams), plant_(plant) {}

  void run(const Command& command);
  void collect(std::vector<std::vector<double>>& values) const;  // waits; kSlots more

 private:
  void dispatch(const Command& command);
  bool run_alone(const Command& command);  // what has no operand; false: this one has
  Tensor compute(const Command& command, const Tensor& a, const Tensor& b);
  Tensor by_way_of_pinned(const Tensor& a);

  Slot& slot(int index) { return slots_[static_cast<std::size_t>(index)]; }

  [[nodiscard]] Device place(int device) const;
  [[nodiscard]] const Stream& stream(int device, int index) const;
  void before(const Slot& slot, const Stream& stream, Wait wait) const;
  void after(Slot& slot, const Stream& stream) const;
  void put(int index, Tensor tensor, int device, const Stream* stream);
  void ensure(const Command& command, int index);

  Where where_;
  Letters* letters_;
  const Workers::Streams* streams_;
  Plant plant_;
  std::array<Slot, kSlots> slots_;
};

}  // namespace custash::harness::stress
