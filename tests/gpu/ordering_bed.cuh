// SPDX-License-Identifier: MIT
// Bed: what the ordering checks stand on. One round of most of them: the first owner leaves
// late work on a block and frees it at once, the block is asked for again, the second owner
// writes it on another stream, and once everything has ended the second owner's words must be
// there. On the driver the free waits for the late work; an allocator that neither waits nor
// orders loses. A round bites (can fail) when the same bytes came back while the late work was
// still due. No lock: the main thread's, but for what six_threads says.
#pragma once

#include "kernels.cuh"

#include <functional>
#include <memory>

namespace gpu {

constexpr unsigned long long kLateNs = 4'000'000;
constexpr Word kFirst = 0xA5A5A5A5;  // one byte repeated, so that memsets can write them too
constexpr Word kSecond = 0x5B5B5B5B;
constexpr Word kThird = 0x3C3C3C3C;

inline bool overlap(const void* p, std::size_t p_bytes, const void* q, std::size_t q_bytes) {
  const auto* a = static_cast<const char*>(p);
  const auto* b = static_cast<const char*>(q);
  return a < b + q_bytes && b < a + p_bytes;
}

// Whether cudaFree had to wait in a check, for what the host could see: such times say nothing
// about the others.
enum class FreeMust { NotWait, Wait };

struct Tally {
  int rounds = 0;
  int same = 0;    // the same bytes came back
  int biting = 0;  // and did so while the late work was due
  unsigned long long wrong = 0;
  std::vector<double> free_us;  // of cudaFree, late work running
};

using Work = std::function<void(void* p, std::size_t bytes)>;

// One round. What is left empty is the plain call.
struct Round {
  std::size_t bytes = 0;
  Work first;   // leaves work on p that ends late
  Work second;  // leaves kSecond in every word of p
  std::function<void*(std::size_t bytes)> first_take;
  std::function<void(void* p)> first_give;
  std::function<void*(std::size_t bytes)> second_take;
  std::function<void(void* p)> second_give;
  int tries = 8192;  // how many blocks to ask for until the bytes come back
};

struct Bed {
  explicit Bed(bool quick_run) : quick(quick_run) {
    warm_up(a, wrong);
    warm_up(cudaStreamLegacy, wrong);
    CUDA_OK(cudaDeviceSynchronize());
  }

  int rounds(int full) const { return quick ? std::max(3, full / 5) : full; }

  double timed_free(void* p) {
    const double start = now_us();
    CUDA_OK(cudaFree(p));
    return now_us() - start;
  }

  // Asks for blocks until one overlaps p: an allocator may well hold other free memory of that
  // size and prefer it, as long as there is any. The blocks in between are kept until settle().
  void* take_again(const void* p,
                   std::size_t bytes,
                   int tries,
                   const std::function<void*(std::size_t)>& take,
                   const std::function<void(void*)>& give) {
    const std::size_t most = std::max<std::size_t>(4, 700 * kMiB / bytes);
    const std::size_t limit = std::min<std::size_t>(most, static_cast<std::size_t>(tries));
    for (std::size_t i = 1;; ++i) {
      void* q = take ? take(bytes) : device_memory(bytes);
      if (i >= limit || overlap(p, bytes, q, bytes)) return q;
      between_.emplace_back([q, give] { give ? give(q) : plain_free(q); });
    }
  }

  void* take_again(const void* p, std::size_t bytes) {
    return take_again(p, bytes, 8192, nullptr, nullptr);
  }

  // Kept until the round is over: a graph, a stream, a thread of the round.
  void keep(std::function<void()> give_back) { between_.push_back(std::move(give_back)); }

  // The round is over and the device idle: gives back what lay in between.
  void settle() {
    CUDA_OK(cudaDeviceSynchronize());
    for (const auto& give_back : between_)
      give_back();
    between_.clear();
    CUDA_OK(cudaDeviceSynchronize());
  }

  void count_same(Tally& tally, const void* p, const void* q, std::size_t bytes, double since) {
    if (!overlap(p, bytes, q, bytes)) return;
    ++tally.same;
    tally.biting += (now_us() - since) * 1000 < static_cast<double>(kLateNs) ? 1 : 0;
  }

  void play(Tally& tally, const Round& round) {
    void* p = round.first_take ? round.first_take(round.bytes) : device_memory(round.bytes);
    const double start = now_us();
    round.first(p, round.bytes);
    if (round.first_give) {
      round.first_give(p);
    } else {
      tally.free_us.push_back(timed_free(p));
    }
    void* q = take_again(p, round.bytes, round.tries, round.second_take, round.second_give);
    count_same(tally, p, q, round.bytes, start);
    round.second(q, round.bytes);
    ++tally.rounds;
    tally.wrong += wrong.in(q, round.bytes, kSecond);
    round.second_give ? round.second_give(q) : plain_free(q);
    settle();
  }

  // Sums up one check. A check that saw no wrong word passes; whether it could have failed is
  // for the reader of `biting`.
  void tell(const std::string& name, const Tally& tally, FreeMust must = FreeMust::NotWait) {
    report.check(
        tally.wrong == 0,
        name,
        "rounds=%d same=%d biting=%d wrong=%llu free_median_us=%.2f free_worst_us=%.2f",
        tally.rounds,
        tally.same,
        tally.biting,
        tally.wrong,
        median(tally.free_us),
        worst(tally.free_us));
    all.rounds += tally.rounds;
    all.same += tally.same;
    all.biting += tally.biting;
    all.wrong += tally.wrong;
    if (must == FreeMust::Wait) return;
    all.free_us.insert(all.free_us.end(), tally.free_us.begin(), tally.free_us.end());
  }

  static void plain_free(void* p) { CUDA_OK(cudaFree(p)); }

  const bool quick;
  Report report;
  Tally all;
  WrongWords wrong;
  cudaStream_t a = new_stream();
  cudaStream_t b = new_stream();
  cudaStream_t c = new_stream();
  cudaStream_t d = new_stream();

 private:
  std::vector<std::function<void()>> between_;
};

// The usual late writer and the usual second owner.
inline Work late_on(cudaStream_t stream) {
  return [stream](void* p, std::size_t bytes) { fill(stream, p, bytes, kFirst, kLateNs); };
}

inline Work second_on(cudaStream_t stream) {
  return [stream](void* p, std::size_t bytes) { fill(stream, p, bytes, kSecond); };
}

inline Round usual(std::size_t bytes, cudaStream_t first, cudaStream_t second) {
  Round round;
  round.bytes = bytes;
  round.first = late_on(first);
  round.second = second_on(second);
  return round;
}

}  // namespace gpu
