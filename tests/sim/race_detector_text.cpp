// SPDX-License-Identifier: MIT
// What the race detector says, and the list of what it has said.
#include "tests/sim/race_detector.hpp"

#include <algorithm>
#include <cstdio>

namespace custash::sim {
namespace {

std::string range(Address address, Bytes bytes) {
  char text[64];
  std::snprintf(text,
                sizeof text,
                "%#llx, %llu bytes",
                static_cast<unsigned long long>(address),
                static_cast<unsigned long long>(bytes));
  return text;
}

}  // namespace

const char* name_of(Report::Kind kind) {
  switch (kind) {
    case Report::Conflict:
      return "conflict";
    case Report::NotAllocated:
      return "not allocated";
    case Report::BeforeAllocation:
      return "before allocation";
    case Report::AfterFree:
      return "after free";
    case Report::FreeUnordered:
      return "free unordered";
    case Report::AllocatorFault:
      return "ALLOCATOR FAULT";
    case Report::Fault:
      return "fault";
  }
  return "?";
}

std::string RaceDetector::describe(const Use& use) const {
  const Node& node = nodes_[use.node];
  return "  " + std::string(use.write ? "write" : "read") + " by " + node.name + ", step " +
         std::to_string(node.step) + ", thread " + std::to_string(node.thread) + ", chain " +
         std::to_string(node.chain) + " at " + std::to_string(node.position) +
         (use.allocation != 0 ? ", under allocation " + std::to_string(use.allocation) : "") +
         "\n";
}

std::string RaceDetector::describe(AllocationIndex index) const {
  if (index == 0) return "  (memory that was not announced)\n";
  const Allocation& allocation = allocations_[index - 1];
  std::string text = "  allocation " + std::to_string(index) + ": " +
                     range(allocation.address, allocation.bytes) + ", made in step " +
                     std::to_string(allocation.step) + " by thread " +
                     std::to_string(allocation.thread);
  if (allocation.freed) {
    text += std::string(", freed ") + (allocation.freed_on_stream ? "on a stream" : "plainly") +
            " in step " + std::to_string(allocation.freed_step) + " by thread " +
            std::to_string(allocation.freed_by);
  }
  text += ", " + std::to_string(allocation.uses) + " accesses\n";
  for (const Use& use : allocation.history)
    text += "  " + describe(use);
  return text;
}

// The same finding again (another piece of the same range) adds nothing.
void RaceDetector::report(
    Report::Kind kind, std::uint64_t step, Address address, Bytes bytes, std::string text) {
  constexpr std::size_t kMost = 200;
  if (reports_.size() >= kMost) return;
  if (!reports_.empty() && reports_.back().kind == kind && reports_.back().step == step &&
      reports_.back().address + reports_.back().bytes == address) {
    reports_.back().bytes += bytes;
    return;
  }
  Report made{kind, step, address, bytes, {}};
  made.text = std::string(name_of(kind)) + ", step " + std::to_string(step) + ", " +
              range(address, bytes) + ": " + std::move(text);
  reports_.push_back(std::move(made));
}

std::vector<Report> RaceDetector::reports() const {
  const std::lock_guard lock(mutex_);
  return reports_;
}

std::size_t RaceDetector::count(Report::Kind kind) const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(std::count_if(
      reports_.begin(), reports_.end(), [=](const Report& row) { return row.kind == kind; }));
}

bool RaceDetector::clean() const {
  const std::lock_guard lock(mutex_);
  return reports_.empty();
}

std::string RaceDetector::text() const {
  const std::lock_guard lock(mutex_);
  std::string text;
  for (const Report& row : reports_)
    text += row.text;
  return text;
}

void RaceDetector::clear() {
  const std::lock_guard lock(mutex_);
  step_ = 0;
  tails_.clear();
  host_chain_.clear();
  thread_chains_.clear();
  thread_clocks_.clear();
  joins_ignored_.clear();
  outsiders_.clear();
  heard_ = {};
  known_ = {};
  nodes_.clear();
  op_nodes_.clear();
  first_op_ = 0;
  allocations_.clear();
  by_address_.clear();
  cells_.clear();
  reports_.clear();
}

}  // namespace custash::sim
