// SPDX-License-Identifier: MIT
// Bench: the measurements of one process. Its context is there before the first, and what they
// need on the device. Outcome: the figures of all.
#pragma once

#include "tools/demos/bandwidth/crew.hpp"
#include "tools/demos/bandwidth/cuda.hpp"

#include <string>

namespace custash::bandwidth {

class Bench {
 public:
  Bench(int device, Bytes most);  // `most`: of the cells to come

  const Cuda& cuda() const { return cuda_; }

  // One sample a round, each begun together with the other members.
  void measure(const Cell& cell, Member& member, std::span<Sample> samples);

  // Milliseconds on the device for one copy.
  double copy(Direction direction, char* host, Bytes bytes);

 private:
  Sample cached(const Cell& cell, const HostBuffer& buffer);
  Sample cold(const Cell& cell);

  Cuda cuda_;
  DeviceBuffer there_;
  EventPair events_;
  Stopwatch whole_;
  Stopwatch part_;
};

// All figures of the plan, in the order of its processes and cells.
struct Outcome {
  std::string device;
  std::string custash;  // its version; empty: bare
  int driver = 0;
  bool simulated = false;
  unsigned repetitions = 0;
  std::vector<Figures> figures;
};

Outcome measure_all(const Plan& plan);

// What was measured, as text, JSON and a picture.
std::string text_of(const Outcome& outcome);
std::string json_of(const Outcome& outcome);
std::string plot_of(const Outcome& outcome);  // SVG

// "NVIDIA H200, driver 13.0, under custash 0.2.0, medians of 11".
std::string title_of(const Outcome& outcome);

}  // namespace custash::bandwidth
