// SPDX-License-Identifier: MIT
#include "tools/demos/bandwidth/mistakes.hpp"

#include "tools/demos/bandwidth/bench.hpp"
#include "tools/text.hpp"

namespace custash::bandwidth {
namespace {

constexpr Bytes kBytes = 40'000'000;  // ten million floats

double since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
      .count();
}

// One transfer as a program that thinks of nothing times it: device memory and copy, once.
double transfer(const Cuda& cuda, char* host) {
  Stopwatch watch(cuda);
  watch.start();
  const DeviceBuffer there(cuda, kBytes);
  cuda.copy_to_device(there.address(), host, kBytes, cuda.stream());
  cuda.synchronize(cuda.stream());
  return watch.ms();
}

double in_a_process(const std::function<double()>& work) {
  const SharedArray<double> result(1);
  run_crew(1, [&](Member&) { result.all().front() = work(); });
  return result.all().front();
}

// Each of two processes times its one transfer. Who pins has a context by then; who does not
// starts it with the stopwatch running.
Mistakes::Pair first_transfer(int device) {
  Mistakes::Pair pair{};
  pair.pageable_ms = in_a_process([&] {
    std::vector<char> host(kBytes, 1);
    const auto begin = std::chrono::steady_clock::now();
    const Cuda cuda(device);
    const double start_up = simulated() ? 0 : since(begin);  // the simulated driver models none
    return start_up + transfer(cuda, host.data());
  });
  pair.pinned_ms = in_a_process([&] {
    const Cuda cuda(device);
    const HostBuffer host(cuda, Memory::Pinned, kBytes);
    return transfer(cuda, host.data());
  });
  return pair;
}

// One process fills a pageable and a pinned buffer, and hands each on as data goes from one
// process to another: in memory that both have mapped.
Mistakes::Pair handed_over(int device, unsigned repetitions, bool* arrived_pinned) {
  const SharedArray<char> from_pageable(kBytes);
  const SharedArray<char> from_pinned(kBytes);
  run_crew(1, [&](Member&) {
    const Cuda cuda(device);
    for (const Memory memory : {Memory::Pageable, Memory::Pinned}) {
      const HostBuffer buffer(cuda, memory, kBytes);
      auto& shared = memory == Memory::Pinned ? from_pinned : from_pageable;
      std::memcpy(shared.all().data(), buffer.data(), kBytes);
    }
  });
  const SharedArray<bool> pinned(1);
  const auto received = [&](char* arrived) {
    return in_a_process([&, arrived] {
      Bench bench(device, kBytes);
      unsigned flags = 0;
      pinned.all().front() |= bench.cuda().host_flags.result(&flags, arrived) == CUDA_SUCCESS;
      std::vector<double> times;
      for (unsigned i = 0; i <= repetitions; ++i) {
        const double ms = bench.copy(Direction::ToDevice, arrived, kBytes);
        if (i > 0) times.push_back(ms);
      }
      return median(std::move(times));
    });
  };
  Mistakes::Pair pair{};
  pair.pageable_ms = received(from_pageable.all().data());
  pair.pinned_ms = received(from_pinned.all().data());
  *arrived_pinned = pinned.all().front();
  return pair;
}

}  // namespace

Mistakes make_mistakes(int device, unsigned repetitions) {
  Mistakes mistakes{};
  mistakes.first_transfer = first_transfer(device);
  mistakes.handed_over = handed_over(device, repetitions, &mistakes.arrived_pinned);
  const Outcome right = measure_all({.sizes = {kBytes},
                                     .directions = {Direction::ToDevice},
                                     .memories = {Memory::Pageable, Memory::Pinned},
                                     .allocations = {Allocation::Cached},
                                     .processes = {1},
                                     .repetitions = repetitions,
                                     .device = device});
  mistakes.right = {right.figures[0].copy_ms, right.figures[1].copy_ms};
  mistakes.simulated = right.simulated;
  return mistakes;
}

std::string text_of(const Mistakes& mistakes) {
  std::string out;
  add(out, "40 MB, host to device%s\n", mistakes.simulated ? "; times are modelled" : "");
  add(out, "  %-32s %12s %12s %9s\n", "", "pageable ms", "pinned ms", "ratio");
  const auto row = [&](const char* what, const Mistakes::Pair& pair) {
    add(out,
        "  %-32s %12.3f %12.3f %8.2fx\n",
        what,
        pair.pageable_ms,
        pair.pinned_ms,
        pair.ratio());
  };
  row("wrong: start-up in the timing", mistakes.first_transfer);
  row("wrong: handed to a process", mistakes.handed_over);
  row("right", mistakes.right);
  out +=
      "Start-up in the timing: each process times its first transfer alone; who pins has "
      "started "
      "the\n"
      "context by then, the other starts it with the stopwatch running.\n";
  if (mistakes.simulated) out += "(The simulated driver models no start-up.)\n";
  add(out,
      "Handed to a process: what was pinned arrives in shared memory that the driver calls %s, "
      "so "
      "that\n"
      "both transfers are pageable.\n",
      mistakes.arrived_pinned ? "pinned" : "not pinned");
  out +=
      "Right: pinned in the process that copies, its context there before, many repetitions, "
      "events.\n";
  return out;
}

std::string json_of(const Mistakes& mistakes) {
  std::string out = "{\"bytes\":" + std::to_string(kBytes);
  out += std::string(",\"simulated\":") + (mistakes.simulated ? "true" : "false");
  out += std::string(",\"arrived_pinned\":") + (mistakes.arrived_pinned ? "true" : "false");
  const auto pair = [&](const char* name, const Mistakes::Pair& p) {
    add(out,
        ",\"%s\":{\"pageable_ms\":%.6f,\"pinned_ms\":%.6f,\"ratio\":%.6f}",
        name,
        p.pageable_ms,
        p.pinned_ms,
        p.ratio());
  };
  pair("first_transfer", mistakes.first_transfer);
  pair("handed_over", mistakes.handed_over);
  pair("right", mistakes.right);
  return out + "}\n";
}

}  // namespace custash::bandwidth
