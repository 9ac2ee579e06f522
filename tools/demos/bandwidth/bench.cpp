// SPDX-License-Identifier: MIT
#include "tools/demos/bandwidth/bench.hpp"

#include "tools/progress.hpp"

#include <algorithm>
#include <optional>

namespace custash::bandwidth {
namespace {

// What the first process says of where it runs.
struct Place {
  char device[128];
  char custash[32];
  int driver;
  bool simulated;
};

void put(std::span<char> to, const std::string& text) {
  std::copy_n(text.begin(), std::min(text.size(), to.size() - 1), to.begin());
}

void tell(const Cuda& cuda, Place& place) {
  put(place.device, cuda.device_name());
  put(place.custash, custash_version());
  place.driver = cuda.driver_version();
  place.simulated = simulated();
}

}  // namespace

Bench::Bench(int device, Bytes most)
    : cuda_(device), there_(cuda_, most), events_(cuda_), whole_(cuda_), part_(cuda_) {
}

double Bench::copy(Direction direction, char* host, Bytes bytes) {
  CUstream const stream = cuda_.stream();
  events_.begin(stream);
  if (direction == Direction::ToDevice)
    cuda_.copy_to_device(there_.address(), host, bytes, stream);
  else
    cuda_.copy_to_host(host, there_.address(), bytes, stream);
  events_.end(stream);
  return events_.ms();
}

Sample Bench::cached(const Cell& cell, const HostBuffer& buffer) {
  Sample sample;
  whole_.start();
  sample.copy_ms = copy(cell.direction, buffer.data(), cell.bytes);
  sample.whole_ms = whole_.ms();
  return sample;
}

Sample Bench::cold(const Cell& cell) {
  Sample sample;
  whole_.start();
  part_.start();
  HostBuffer buffer(cuda_, cell.memory, cell.bytes);
  sample.allocate_ms = part_.ms();
  sample.copy_ms = copy(cell.direction, buffer.data(), cell.bytes);
  part_.start();
  buffer.free();
  sample.free_ms = part_.ms();
  sample.whole_ms = whole_.ms();
  return sample;
}

void Bench::measure(const Cell& cell, Member& member, std::span<Sample> samples) {
  std::optional<HostBuffer> buffer;
  if (cell.allocation == Allocation::Cached)
    buffer.emplace(cuda_, cell.memory, cell.bytes);
  else
    empty_custash();
  for (Sample& sample : samples) {
    member.start_together();
    sample = buffer ? cached(cell, *buffer) : cold(cell);
  }
}

Outcome measure_all(const Plan& plan) {
  const Bytes most = *std::max_element(plan.sizes.begin(), plan.sizes.end());
  const std::size_t rounds = plan.rounds();
  const SharedArray<Place> places(1);
  Outcome outcome;
  Progress progress;
  std::size_t all_cells = 0;
  for (const unsigned processes : plan.processes)
    all_cells += cells_of(plan, processes).size();
  for (const unsigned processes : plan.processes) {
    const std::vector<Cell> cells = cells_of(plan, processes);
    const std::size_t before = outcome.figures.size();
    progress.show("measuring", before, all_cells);
    const SharedArray<Sample> samples(cells.size() * processes * rounds);
    const auto of_cell = [&](std::size_t cell) {
      return samples.all().subspan(cell * processes * rounds, processes * rounds);
    };
    run_crew(processes, [&](Member& member) {
      Bench bench(plan.device, most);
      if (member.number() == 0) tell(bench.cuda(), places.all().front());
      for (std::size_t i = 0; i < cells.size(); ++i) {
        if (member.number() == 0) progress.show("measuring", before + i, all_cells);
        bench.measure(cells[i], member, of_cell(i).subspan(member.number() * rounds, rounds));
      }
    });
    for (std::size_t i = 0; i < cells.size(); ++i)
      outcome.figures.push_back(figures_of(cells[i], of_cell(i), plan.rounds()));
  }
  const Place& place = places.all().front();
  outcome.device = place.device;
  outcome.custash = place.custash;
  outcome.driver = place.driver;
  outcome.simulated = place.simulated;
  outcome.repetitions = plan.repetitions;
  return outcome;
}

}  // namespace custash::bandwidth
