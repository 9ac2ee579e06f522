// SPDX-License-Identifier: MIT
// Another process's block at addresses of this one: talks with its exporter and calls the
// driver. One thread at a time owns it; no lock is held across a driver call.
#pragma once

#include "allocator/allocator.hpp"
#include "interpose/ipc/ipc.hpp"
#include "interpose/process/ranked_mutex.hpp"
#include "interpose/service/service_client.hpp"

#include <deque>
#include <memory>
#include <string>
#include <string_view>

namespace custash::ipc {

// The connection to one exporter, shared by all memory opened from it. Its end means to the
// exporter that nothing is open any more.
class Peer {
 public:
  explicit Peer(const service::Identity& who) : who_(who) {}

  ~Peer();
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  [[nodiscard]] const service::Identity& who() const { return who_; }

  service::Reply ask(std::string_view request);

 private:
  void connect(service::Deadline until) REQUIRES(mutex_);
  bool has_link() REQUIRES(mutex_);
  bool hear_late_ones(service::Deadline until) REQUIRES(mutex_);

  const service::Identity who_;
  RankedMutex mutex_{HookRank::Peer};
  service::Connection link_ GUARDED_BY(mutex_);
  // Requests that have not been answered.
  std::deque<std::string> late_ GUARDED_BY(mutex_);
};

struct Mapping {
  std::shared_ptr<Peer> peer;
  CUdeviceptr start = 0;  // of what is mapped, or of what the driver has opened
  Bytes size = 0;         // mapped; 0: plain memory, opened by the driver
  Address block = 0;      // where the block is
  Bytes requested = 0;
};

// Into the current context. On failure nothing is left behind.
CUresult map(Allocator& core,
             const Handle& handle,
             unsigned flags,
             const std::shared_ptr<Peer>& peer,
             Mapping* out);
// Waits for the context's work, as the driver does. An error that is not a capture's is
// returned after all possible steps are done.
CUresult unmap(Allocator& core,
               const Handle& handle,
               CUcontext context,
               const Mapping& mapping);

}  // namespace custash::ipc
