// SPDX-License-Identifier: MIT
// Proved: tests/models/room.pml. A turn is a lock on a file that is empty and stays. The kernel
// unlocks those of a process that ends. No wait: who cannot have a lock tries again, so their
// order does not matter.
#include "interpose/process/descriptors.hpp"
#include "interpose/process/live_page.hpp"
#include "interpose/process/output_file.hpp"
#include "interpose/service/neighbours.hpp"
#include "interpose/service/room.hpp"

#include <cerrno>
#include <string>
#include <vector>

#include <sys/file.h>
#include <unistd.h>

namespace custash::room {
namespace {

struct Locks {
  ~Locks() {
    for (const int file : files)
      descriptors().close_own(file);
  }

  // False: another process has it.
  bool lock(const std::string& uuid, bool alone) {
    const std::string path =
        std::string(live::kFolder) + "/custash-room." + std::to_string(geteuid()) + "." + uuid;
    if (!alone && access(path.c_str(), F_OK) != 0) return true;  // nobody ever made room
    const int file = output::open_shared(path.c_str());
    if (file < 0) return true;  // not ours, or no room: as without turns
    files.push_back(descriptors().keep(file));
    return flock(files.back(), (alone ? LOCK_EX : LOCK_SH) | LOCK_NB) == 0 ||
           errno != EWOULDBLOCK;
  }

  std::vector<int> files;
};

std::shared_ptr<Locks> locks_on(std::span<const CUdevice> devices, bool alone) {
  auto locks = std::make_shared<Locks>();
  locks->files.reserve(devices.size());
  for (const CUdevice device : devices)
    if (!locks->lock(neighbours::uuid_of(device), alone)) return nullptr;
  return locks;
}

}  // namespace

std::shared_ptr<void> take_turn(std::span<const CUdevice> devices) noexcept {
  try {
    return locks_on(devices, true);
  } catch (...) {  // no memory
    return nullptr;
  }
}

bool is_taken(std::span<const CUdevice> devices) noexcept {
  try {
    return locks_on(devices, false) == nullptr;
  } catch (...) {
    return false;
  }
}

}  // namespace custash::room
