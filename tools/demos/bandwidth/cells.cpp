// SPDX-License-Identifier: MIT
#include "tools/demos/bandwidth/cells.hpp"

#include <algorithm>

namespace custash::bandwidth {
namespace {

double gb_per_s(double bytes, double ms) {
  return ms > 0 ? bytes / ms / 1e6 : 0;
}

}  // namespace

std::string_view name_of(Direction direction) {
  return direction == Direction::ToDevice ? "h2d" : "d2h";
}

std::string_view name_of(Memory memory) {
  return memory == Memory::Pageable ? "pageable" : "pinned";
}

std::string_view name_of(Allocation allocation) {
  return allocation == Allocation::Cached ? "cached" : "cold";
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

std::vector<Cell> cells_of(const Plan& plan, unsigned processes) {
  std::vector<Cell> cells;
  for (const Bytes bytes : plan.sizes)
    for (const Direction direction : plan.directions)
      for (const Memory memory : plan.memories)
        for (const Allocation allocation : plan.allocations)
          cells.push_back({bytes, direction, memory, allocation, processes});
  return cells;
}

Figures figures_of(const Cell& cell, std::span<const Sample> samples, unsigned rounds) {
  const auto at = [&](unsigned process, unsigned round) -> const Sample& {
    return samples[std::size_t{process} * rounds + round];
  };
  const auto typical = [&](double Sample::*what) {
    std::vector<double> values;
    for (unsigned process = 0; process < cell.processes; ++process)
      for (unsigned round = 1; round < rounds; ++round)
        values.push_back(at(process, round).*what);
    return median(std::move(values));
  };
  std::vector<double> slowest;
  for (unsigned round = 1; round < rounds; ++round) {
    double most = 0;
    for (unsigned process = 0; process < cell.processes; ++process)
      most = std::max(most, at(process, round).copy_ms);
    slowest.push_back(most);
  }
  const auto bytes = static_cast<double>(cell.bytes);
  Figures figures;
  figures.cell = cell;
  figures.copy_ms = typical(&Sample::copy_ms);
  figures.whole_ms = typical(&Sample::whole_ms);
  figures.gb_per_s = gb_per_s(bytes, figures.copy_ms);
  figures.gb_per_s_all = gb_per_s(bytes * cell.processes, median(std::move(slowest)));
  if (cell.allocation == Allocation::Cached) return figures;
  AllocationCost cost{0, typical(&Sample::allocate_ms), typical(&Sample::free_ms)};
  for (unsigned process = 0; process < cell.processes; ++process)
    cost.first_ms = std::max(cost.first_ms, at(process, 0).allocate_ms);
  figures.allocation = cost;
  return figures;
}

}  // namespace custash::bandwidth
