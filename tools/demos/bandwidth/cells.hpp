// SPDX-License-Identifier: MIT
// What is measured: a cell is one combination of size, direction, memory, allocation and number
// of processes; a sample is one repetition of it in one process. Pure.
#pragma once

#include "allocator/base/units.hpp"

#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace custash::bandwidth {

enum class Direction { ToDevice, ToHost };
enum class Memory { Pageable, Pinned };
// Cached: the host buffer is there before. Cold: each repetition allocates and frees one.
enum class Allocation { Cached, Cold };

std::string_view name_of(Direction direction);  // as the command line has it
std::string_view name_of(Memory memory);
std::string_view name_of(Allocation allocation);

struct Plan {
  std::vector<Bytes> sizes;
  std::vector<Direction> directions;
  std::vector<Memory> memories;
  std::vector<Allocation> allocations;
  std::vector<unsigned> processes;
  unsigned repetitions = 0;
  int device = 0;

  // The first round warms up, and shows what the first allocation costs; it is in no median.
  unsigned rounds() const { return repetitions + 1; }
};

struct Cell {
  Bytes bytes = 0;
  Direction direction = Direction::ToDevice;
  Memory memory = Memory::Pageable;
  Allocation allocation = Allocation::Cached;
  unsigned processes = 1;
};

struct Sample {
  double allocate_ms = 0;  // until every page is there
  double copy_ms = 0;      // on the device, between two events
  double free_ms = 0;
  double whole_ms = 0;  // all of it, as the host sees it
};

struct AllocationCost {
  double first_ms = 0;  // the worst process's first
  double later_ms = 0;  // medians
  double free_ms = 0;
};

// Medians over all processes and repetitions.
struct Figures {
  Cell cell;
  double copy_ms = 0;
  double whole_ms = 0;
  double gb_per_s = 0;                       // of one process
  double gb_per_s_all = 0;                   // of all together: until the slowest has its bytes
  std::optional<AllocationCost> allocation;  // of a cold cell
};

double median(std::vector<double> values);

std::vector<Cell> cells_of(const Plan& plan, unsigned processes);

// The samples of one process after the other, `rounds` each.
Figures figures_of(const Cell& cell, std::span<const Sample> samples, unsigned rounds);

}  // namespace custash::bandwidth
