// SPDX-License-Identifier: MIT
#include "tests/sim/machine.hpp"

#include "tests/sim/machine_slots.hpp"

#include <cstdlib>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

namespace custash::sim {
namespace {

// One machine a process: it is named by its environment.
int file = -1;
Slots* slots = nullptr;
Slot* own = nullptr;

void open_machine(const std::string& path) {
  file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0 || ftruncate(file, sizeof(Slots)) != 0) std::abort();
  void* const memory =
      mmap(nullptr, sizeof(Slots), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) std::abort();
  slots = static_cast<Slots*>(memory);
}

Slot* take_slot() {
  for (Slot& slot : *slots) {
    // An exec keeps the number and loses the memory.
    if (slot.pid != getpid() && alive(slot.pid)) continue;
    slot.pid = getpid();
    for (std::size_t i = 0; i < slot.used.size(); ++i)
      slot.used[i] = slot.listed[i] = 0;
    return &slot;
  }
  std::abort();
}

}  // namespace

int physical_device(const World& world, int device) {
  const auto& visible = world.options.visible_devices;
  return visible.empty() ? device : visible[static_cast<std::size_t>(device)];
}

std::uint64_t machine_number(const World& world) {
  std::uint64_t number = 0xcbf29ce484222325;
  const std::string& name = world.options.machine;
  for (const char each : name.empty() ? std::to_string(getpid()) : name)
    number = (number ^ static_cast<unsigned char>(each)) * 0x100000001b3;
  return number;
}

MachineLock::MachineLock(const World& world) : world_(world) {
  if (world_.options.machine.empty()) return;
  if (slots == nullptr) open_machine(world_.options.machine);
  while (flock(file, LOCK_EX) != 0) {
  }
  if (own == nullptr) own = take_slot();
}

MachineLock::~MachineLock() {
  if (!world_.options.machine.empty()) flock(file, LOCK_UN);
}

Bytes MachineLock::used_by_others(int device) const {
  Bytes sum = 0;
  if (world_.options.machine.empty()) return sum;
  const auto at = static_cast<std::size_t>(physical_device(world_, device));
  for (const Slot& slot : *slots)
    if (&slot != own && alive(slot.pid)) sum += slot.used.at(at);
  return sum;
}

void MachineLock::publish(int device) {
  if (world_.options.machine.empty()) return;
  const auto at = static_cast<std::size_t>(physical_device(world_, device));
  const DeviceState& its = world_.devices[static_cast<std::size_t>(device)];
  own->used.at(at) = its.used;
  own->listed.at(at) = its.used - its.managed;
}

}  // namespace custash::sim
