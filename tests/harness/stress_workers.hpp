// SPDX-License-Identifier: MIT
// The threads that carry programs out, each with streams of its own: made once and kept, as a
// program takes less time than they would.
#pragma once

#include "tests/harness/stress_program.hpp"

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace custash::harness::stress {

class Workers {
 public:
  using Streams = std::vector<std::vector<Stream>>;  // by device, then as a command counts them

  static Workers& all();  // never destroyed

  const Streams& streams_of(int thread) const {
    return streams_[static_cast<std::size_t>(thread)];
  }

  // work(thread) on `count` threads; returns when all are done, or throws what one of them
  // threw.
  void run(int count, const std::function<void(int)>& work);

 private:
  Workers();
  void loop(int thread);

  std::vector<Streams> streams_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t round_ = 0;
  int wanted_ = 0;
  int running_ = 0;
  unsigned caller_ = 0;  // as the race detector numbers threads
  const std::function<void(int)>* work_ = nullptr;
  std::exception_ptr error_;
};

}  // namespace custash::harness::stress
