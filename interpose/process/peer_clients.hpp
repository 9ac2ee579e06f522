// SPDX-License-Identifier: MIT
// Whether the process uses a client of NVIDIA's peer-memory interface: nvidia-peermem (verbs),
// GDRCopy or GPUDirect Storage. They pin device memory by a call of the kernel, which no hook
// sees. The module must be loaded, and the process must have a device open that registers by
// it, or have set SYNC_MEMOPS, as NVIDIA asks before memory is registered. A library that is
// loaded may be unused. A device of verbs beside NCCL says nothing: NCCL opens all of them.
#pragma once

#include "interpose/real/loaded.hpp"

#include <atomic>
#include <cstdint>
#include <string>

namespace custash {

class PeerClients {
 public:
  using Loaded = std::size_t(const char* beginning) noexcept;

  // For tests: a folder in place of /, and how many libraries of a name are loaded.
  explicit PeerClients(std::string root = "", Loaded* loaded = how_many_loaded)
      : root_(std::move(root)), loaded_(loaded) {}

  // Whether a module is loaded, so that it is worth asking.
  [[nodiscard]] bool possible() const;
  // The device of a client that is open here; empty: none.
  [[nodiscard]] std::string open_device() const;

 private:
  std::string root_;
  Loaded* loaded_;
};

namespace peer_clients {

// The same of this process, at most some times a second. A registration that was seen counts.
bool in_use();
void note_registration() noexcept;

}  // namespace peer_clients
}  // namespace custash
