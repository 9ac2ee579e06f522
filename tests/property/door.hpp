// SPDX-License-Identifier: MIT
// Door: where a program's calls go: straight to the driver (bare), or through the core as the
// doors of interpose/ lead them (cached). One object a run, used by one thread at a time.
#pragma once

#include "allocator/allocator.hpp"
#include "allocator/base/driver.hpp"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace custash {
class HostStore;
}

namespace custash::property {

using Call = std::function<CUresult()>;

class Door {
 public:
  virtual ~Door() = default;

  virtual CUresult malloc(CUcontext context, Bytes bytes, Address* out) = 0;
  virtual CUresult free(Address address) = 0;
  virtual CUresult malloc_async(CUcontext context,
                                CUstream stream,
                                Bytes bytes,
                                Address* out) = 0;
  virtual CUresult free_async(Address address, CUstream stream) = 0;
  virtual CUresult record_stream(Address address, CUstream stream) = 0;
  virtual CUresult submit(CUstream stream,
                          SubmissionKind view,
                          Address first,
                          Address second,
                          const Call& call) = 0;
  // A kernel that may begin before the one in front of it has ended, as cuLaunchKernelEx makes
  // it; `call` is told whether it still may.
  virtual CUresult submit_early(CUstream stream, const std::function<CUresult(bool)>& call) = 0;
  // A kernel whose parameters hold these addresses, and custash can read them.
  virtual CUresult submit_named(CUstream stream,
                                const std::vector<Address>& named,
                                const Call& call) = 0;
  virtual CUresult begin_capture(CUstream stream, const Call& call) = 0;
  virtual CUresult end_capture(CUstream stream, CUgraph* graph, const Call& call) = 0;
  virtual CUresult instantiate(CUgraphExec* exec, CUgraph graph, const Call& call) = 0;
  virtual CUresult destroy_graph(const void* handle, const Call& call) = 0;
  virtual CUresult destroy_stream(CUstream stream, const Call& call) = 0;
  virtual CUresult destroy_context(CUcontext context, const Call& call) = 0;
  virtual CUresult empty_cache(CUcontext context) = 0;
  // The memory of the device (-1: of all) goes to sleep, unless something keeps it awake; and
  // it wakes.
  virtual void sleep(int device) = 0;
  // Pages that are partly in use become small ones, unless something keeps them whole.
  virtual void deep_trim() = 0;
  virtual void wake() = 0;
  // The service's thread looks for memory that idles.
  virtual void look_for_idle_memory() = 0;
  virtual void peer_enabled(CUcontext owner, CUcontext accessor) = 0;
  // Another process has the block open between these.
  virtual CUresult share(int block, Address address) = 0;
  virtual void unshare(int block) = 0;
  // A card, or another interface, is about to use the block.
  virtual CUresult leave(Address address) = 0;

  // A call of custash's beside these, for pinned memory; never of the bare door.
  virtual CUresult ours(const Call& call) = 0;
  // Null: bare.
  [[nodiscard]] virtual Allocator* core() = 0;

  // What must hold at any time; empty when it does. `live`: bytes asked for and not freed.
  // `exact`: none of them came from the driver itself, as after a call that failed.
  virtual std::string check(int device, std::int64_t live, bool exact) = 0;
  // After everything was freed, waited for and emptied.
  virtual std::string check_empty(int device) = 0;
};

std::unique_ptr<Door> bare_door();

struct CachedOptions {
  Config config;
  bool fast = false;  // the calls that do without the driver are tried first, as the runtime's
                      // door does
  bool registered = true;  // the device reaches registered memory under the host's address
  HostStore* store =
      nullptr;  // keeps the contents of sleeping memory; else the driver's memory
};

std::unique_ptr<Door> cached_door(const CachedOptions& options);

}  // namespace custash::property
