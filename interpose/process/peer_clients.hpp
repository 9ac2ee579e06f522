// SPDX-License-Identifier: MIT
// Whether the process uses a client of NVIDIA's peer-memory interface: nvidia-peermem (verbs),
// GDRCopy or GPUDirect Storage. They pin device memory by a call of the kernel, which no hook
// sees. The module must be loaded, and the process must have the device of GDRCopy or of
// GPUDirect Storage open, or have set SYNC_MEMOPS, as NVIDIA asks before memory is registered.
// A library that is loaded may be unused.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace custash {

class PeerClients {
 public:
  // `root`: for tests, a folder in place of /.
  explicit PeerClients(std::string root = "") : root_(std::move(root)) {}

  // Whether a module is loaded, so that it is worth asking.
  [[nodiscard]] bool possible() const;
  // The device of a client that is open here; empty: none.
  [[nodiscard]] std::string open_device() const;

 private:
  std::string root_;
};

namespace peer_clients {

// The same of this process, at most some times a second. A registration that was seen counts.
bool in_use();
void note_registration() noexcept;

}  // namespace peer_clients
}  // namespace custash
