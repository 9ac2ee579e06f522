// SPDX-License-Identifier: MIT
#include "tests/harness/stress_run.hpp"

#include "tests/harness/stress_machine.hpp"
#include "tests/harness/stress_workers.hpp"

#include <cmath>

namespace custash::harness::stress {
namespace {

using Values = std::vector<std::vector<double>>;  // by thread and slot; empty: no tensor

// In one thread and in the program's order: a letter is always there when it is asked for.
Values expected(const Program& program) {
  Letters letters(program);
  std::vector<Machine> machines;
  for (int thread = 0; thread < program.threads; ++thread)
    machines.emplace_back(Where::Cpu, letters, nullptr, Plant::Nothing);
  for (const Command& command : program.commands)
    machines[static_cast<std::size_t>(command.thread)].run(command);
  Values values;
  for (const Machine& machine : machines)
    machine.collect(values);
  return values;
}

Values measured(const Program& program, Plant plant) {
  Letters letters(program);
  std::vector<Machine> machines;
  for (int thread = 0; thread < program.threads; ++thread)
    machines.emplace_back(Where::Cuda, letters, &Workers::all().streams_of(thread), plant);
  Workers::all().run(program.threads, [&](int thread) {
    for (const Command& command : program.commands)
      if (command.thread == thread) machines[static_cast<std::size_t>(thread)].run(command);
  });
  Values values;
  for (int device = 0; device < program.devices; ++device)
    synchronize(device);
  for (const Machine& machine : machines)
    machine.collect(values);
  return values;
}

bool same(double left, double right) {
  return left == right || (std::isnan(left) && std::isnan(right));
}

std::string difference(const Values& wanted, const Values& got) {
  for (std::size_t slot = 0; slot < wanted.size(); ++slot) {
    const std::string where =
        "thread " + std::to_string(slot / kSlots) + " slot " + std::to_string(slot % kSlots);
    if (wanted[slot].size() != got[slot].size()) return where + ": another size";
    for (std::size_t i = 0; i < wanted[slot].size(); ++i)
      if (!same(wanted[slot][i], got[slot][i]))
        return where + "[" + std::to_string(i) + "]: " + std::to_string(got[slot][i]) +
               ", should be " + std::to_string(wanted[slot][i]);
  }
  return {};
}

}  // namespace

std::string run(const Program& program, Plant plant) {
  std::string wrong;
  try {
    wrong = difference(expected(program), measured(program, plant));
  } catch (const std::exception& error) {
    wrong = error.what();
  }
  for (int device = 0; device < program.devices; ++device)
    synchronize(device);
  if (detector::reports() != 0) wrong.append("\n").append(detector::text(), 0, 4000);
  detector::clear();
  return wrong;
}

}  // namespace custash::harness::stress
