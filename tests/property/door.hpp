// SPDX-License-Identifier: MIT
// Door: where a program's calls go: straight to the driver (bare, this class itself), or
// through the core as the doors of interpose/ lead them (cached). One object a run, used by one
// thread at a time.
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

struct Plan;

class Door {
 public:
  virtual ~Door() = default;

  virtual CUresult malloc(CUcontext, Bytes bytes, Address* out) { return alloc(bytes, out); }

  virtual CUresult free(Address address) { return cuMemFree(address); }

  // Without custash, stream-ordered memory comes fresh from cuMemAlloc and is released at the
  // end, so only the program itself puts operations in an order.
  virtual CUresult malloc_async(CUcontext, CUstream, Bytes bytes, Address* out) {
    return alloc(bytes, out);
  }

  virtual CUresult free_async(Address, CUstream) { return CUDA_SUCCESS; }

  virtual CUresult record_stream(Address, CUstream) { return CUDA_SUCCESS; }

  virtual CUresult submit(CUstream, SubmissionKind, Address, Address, const Call& call) {
    return call();
  }

  // A kernel that may begin before the one in front of it has ended, as cuLaunchKernelEx makes
  // it; `call` is told whether it still may.
  virtual CUresult submit_early(CUstream, const std::function<CUresult(bool)>& call) {
    return call(true);
  }

  // A kernel whose parameters hold these addresses, and custash can read them.
  virtual CUresult submit_named(CUstream, const std::vector<Address>&, const Call& call) {
    return call();
  }

  virtual CUresult begin_capture(CUstream, const Call& call) { return call(); }

  virtual CUresult end_capture(CUstream, CUgraph*, const Call& call) { return call(); }

  virtual CUresult instantiate(CUgraphExec*, CUgraph, const Call& call) { return call(); }

  virtual CUresult destroy_graph(const void*, const Call& call) { return call(); }

  virtual CUresult destroy_stream(CUstream, const Call& call) { return call(); }

  virtual CUresult destroy_context(CUcontext, const Call& call) { return call(); }

  virtual CUresult empty_cache(CUcontext) { return CUDA_SUCCESS; }

  // The memory of the device (-1: of all) goes to sleep, unless something keeps it awake; and
  // it wakes.
  virtual void sleep(int) {}

  virtual void wake() {}

  // Pages that are partly in use become small ones, unless something keeps them whole.
  virtual void deep_trim() {}

  // The service's thread looks for memory that idles.
  virtual void look_for_idle_memory() {}

  virtual void peer_enabled(CUcontext, CUcontext) {}

  // Another process has the block open between these.
  virtual CUresult share(int, Address) { return CUDA_SUCCESS; }

  virtual void unshare(int) {}

  // A card, or another interface, is about to use the block.
  virtual CUresult leave(Address) { return CUDA_SUCCESS; }

  // A call of custash's beside these, for pinned memory; never of the bare door.
  virtual CUresult ours(const Call& call) { return call(); }

  // Null: bare.
  [[nodiscard]] virtual Allocator* core() { return nullptr; }

  // What must hold at any time; empty when it does. `live`: bytes asked for and not freed.
  // `exact`: none of them came from the driver itself, as after a call that failed.
  virtual std::string check(int, std::int64_t, bool) { return {}; }

  // After everything was freed, waited for and emptied.
  virtual std::string check_empty(int) { return {}; }

 private:
  static CUresult alloc(Bytes bytes, Address* out) {
    CUdeviceptr address = 0;
    const CUresult result = cuMemAlloc(&address, bytes);
    *out = address;
    return result;
  }
};

struct CachedOptions {
  Config config;
  bool fast = false;  // the calls that do without the driver are tried first, as the runtime's
                      // door does
  bool registered = true;  // the device reaches registered memory under the host's address
  HostStore* store =
      nullptr;           // keeps the contents of sleeping memory; else the driver's memory
  Plan* plan = nullptr;  // one of custash's own driver calls fails
};

std::unique_ptr<Door> cached_door(const CachedOptions& options);

}  // namespace custash::property
