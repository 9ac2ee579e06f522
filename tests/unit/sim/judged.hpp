// SPDX-License-Identifier: MIT
// A program on the simulator that the race detector watches: two streams and a block.
#pragma once

#include "tests/catch.hpp"
#include "tests/sim/race_detector.hpp"
#include "tests/unit/sim/calls.hpp"

namespace custash::sim {

struct Judged {
  static constexpr Bytes kBytes = 4_KiB;

  explicit Judged(const Options& options = {}) : sim(options) {
    set_observer(&detector);
    p = block();
  }

  ~Judged() { set_observer(nullptr); }

  Judged(const Judged&) = delete;
  Judged& operator=(const Judged&) = delete;

  CUdeviceptr block() {
    const CUdeviceptr made = make_block(kBytes);
    REQUIRE(made != 0);
    detector.on_alloc(made, kBytes, this_thread());
    return made;
  }

  OpId write(CUstream stream, int needs = 0) const { return touch(stream, true, needs); }

  OpId read(CUstream stream) const { return touch(stream, false, 0); }

  OpId touch(CUstream stream, bool write, int needs) const {
    REQUIRE(launch(stream, {.accesses = {{p, kBytes, write}}, .needs_flag = needs}) ==
            CUDA_SUCCESS);
    return last_op(stream);
  }

  // As of an allocator that hands memory out at once.
  void freed_and_had_again() {
    REQUIRE(detector.on_free(p, this_thread()));
    detector.on_alloc(p, kBytes, this_thread());
  }

  bool only(Report::Kind kind) const {
    UNSCOPED_INFO(detector.text());
    return detector.count(kind) == 1 && detector.reports().size() == 1;
  }

  bool clean() const {
    UNSCOPED_INFO(detector.text());
    return detector.clean();
  }

  RaceDetector detector;
  Sim sim;
  CUstream a = make_stream();
  CUstream b = make_stream();
  CUdeviceptr p = 0;
};

}  // namespace custash::sim
