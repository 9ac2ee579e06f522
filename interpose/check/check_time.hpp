// SPDX-License-Identifier: MIT
// CheckTime: for how long check_streams has kept the program's calls. The clock is read in one
// of 256 calls, at random distances, and such a call counts for all 256. One for each process.
// Thread safe, lock free.
#pragma once

#include "interpose/check/guard_sampler.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>

namespace custash::streams {

class CheckTime {
 public:
  static constexpr std::uint32_t kOneIn = 256;

  // The check's part of one call. What it calls itself counts with it.
  class Scope {
   public:
    Scope() : measured_(depth++ == 0 && sampler.wants({.one_in = kOneIn}, 0)) {
      if (measured_) begin_ = std::chrono::steady_clock::now();
    }

    ~Scope() {
      --depth;
      if (!measured_) return;
      const auto time = std::chrono::steady_clock::now() - begin_;
      const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
      total.fetch_add(static_cast<std::uint64_t>(ns) * kOneIn, std::memory_order_relaxed);
      samples.fetch_add(1, std::memory_order_relaxed);
    }

    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    const bool measured_;
    std::chrono::steady_clock::time_point begin_;
  };

  static std::uint64_t nanoseconds() { return total.load(std::memory_order_relaxed); }

  static std::uint64_t sampled() { return samples.load(std::memory_order_relaxed); }

 private:
  static inline constinit thread_local int depth = 0;
  // Not the first call, which takes longer than most.
  static inline GuardSampler sampler{kOneIn};
  // Order: none. They are counts.
  static inline std::atomic<std::uint64_t> total{0};
  static inline std::atomic<std::uint64_t> samples{0};
};

}  // namespace custash::streams
