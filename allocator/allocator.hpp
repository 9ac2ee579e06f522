// SPDX-License-Identifier: MIT
// Allocator: the facade of the core. Its other headers for the folders above: submission.hpp,
// peer_processes.hpp, work_in_flight.hpp, memory_limits.hpp, charged_memory.hpp and those of
// sleep/. It routes each call by context or address to the ContextCache of one context. Thread
// safe throughout; no lock is held across a driver call. Created once and never destroyed.
#pragma once

#include "allocator/base/config.hpp"
#include "allocator/base/driver.hpp"
#include "allocator/base/inventory.hpp"
#include "allocator/base/stats.hpp"
#include "allocator/base/status.hpp"
#include "allocator/base/units.hpp"
#include "allocator/heap/block_info.hpp"
#include "allocator/order/position.hpp"
#include "allocator/submission_kind.hpp"

#include <optional>

namespace custash {

class ContextUsers;
class MemoryLimits;
class Sampler;
class SleepGate;

// Not 0: another try at the allocation is worth it.
using OutOfMemoryHook = int (*)(int device, std::size_t bytes, void* data);

class Allocator {
 public:
  struct State;    // allocator/registry.hpp
  class FreePlan;  // allocator/free_plan.hpp

  // Keeps a reference to the driver table, which must outlive the process's last call, and a
  // copy of the configuration.
  Allocator(const Driver& driver, const Config& config);

  Allocator(const Allocator&) = delete;
  Allocator& operator=(const Allocator&) = delete;

  // ---- Plain calls (cuMemAlloc, cuMemFree): the owner may use any stream, at once.

  // `context` must be current to the calling thread. bytes > 0. On failure *out is untouched.
  Status allocate(CUcontext context, Bytes bytes, Address* out);

  // The same, only where no driver call is needed; 0 where one would be.
  Address try_allocate(CUcontext context, Bytes bytes);

  // nullopt: the address is not in custash's memory; the driver frees it.
  // CUDA_ERROR_INVALID_VALUE: interior, or free already.
  std::optional<Status> free(Address address);

  // The same, only where a free takes no more than a fence and a wait for what the host could
  // see. False: nothing is done.
  bool try_free(Address address);

  // ---- Calls that name a stream (cuMemAllocAsync, cuMemFreeAsync, custash_malloc_async):
  // ordered on it.

  Status allocate_on(
      CUcontext context, CUstream stream, NullStream null, Bytes bytes, Address* out);
  std::optional<Status> free_on(Address address, CUstream stream, NullStream null);
  // As free_on(), for callers that need no error: whether the block was freed.
  bool try_free_on(Address address, CUstream stream, NullStream null);

  // As allocate_on(), only from what the thread keeps ready; 0 where that is not enough.
  // `context` is current and the stream's.
  Address try_allocate_on(CUcontext context, CUstream stream, NullStream null, Bytes bytes);

  // The block is in use on `stream` too: its reuse waits for what that stream holds at the
  // free. INVALID_VALUE when the address is not a live block of ours.
  Status record_stream(Address address, CUstream stream, NullStream null);

  // ---- Stream captures, see graph_memory.hpp. How many go on, in all contexts.
  [[nodiscard]] std::uint32_t captures_open() const;

  // ---- Faults.
  // A kernel of the context has faulted: only the driver has the right answers now.
  bool context_broken(CUcontext context);
  // A call has told the program of a fault on the device: from now on the driver answers in the
  // contexts where it was, be it an allocation that the cache could serve.
  void look_for_faults();

  // ---- Lifetime of what we key by.

  // Before a driver call that may end the context, close() these users. If the context lives
  // on, open() them again. Null: custash keeps nothing of that context.
  ContextUsers* users_of(CUcontext context);

  void stream_destroyed(CUstream stream);     // call before the driver's
  void context_destroyed(CUcontext context);  // call before the driver's: forgets its segments
  void context_gone(CUcontext context);       // call after it: returns VMM pages that survive
  void peer_access_enabled(CUcontext owner,
                           CUcontext accessor);  // accessor may now read owner's memory

  // ---- Releasing.

  // Returns at least `bytes` to the driver if that much is free (whole pages, so it may be
  // more). May wait for work in flight only where the driver itself does (cuMemFree of whole
  // segments). The same of what was freed on one stream; of what has been free since the call
  // before; of everything.
  Status trim(int device, Bytes bytes);
  Status trim_stream(CUstream stream, NullStream null);
  Status trim_idle(int device);
  void empty_all_caches();
  // Another allocating driver call failed for memory: waits for and returns what is needed;
  // true when something was returned and the call is worth a second try.
  bool relieve(CUcontext context);

  // ---- Queries.

  [[nodiscard]] bool owns(Address address) const;    // in a segment of ours; takes no lock
  Ownership find(Address address, BlockInfo* info);  // info filled when Live; may be null
  Bytes reclaimable(int device);                     // free or in limbo: what can be released
  DeviceStats stats(int device);                     // summed over the device's contexts
  Inventory inventory(int device);  // of all its contexts, each at a moment of its own
  void reset_peak_stats(int device);

  // Walks everything; false (and a log line) when an invariant does not hold. For tests.
  bool validate();

  // Visits the sampler of each context that has one and whose end has not begun.
  void visit_samplers(void (*visit)(Sampler& sampler, const void* data), const void* data);

  // In the child after fork: resets locks. The child then only passes through (interpose/ sees
  // to it).
  void after_fork_in_child();

  const Driver& driver() const { return driver_; }

  const Config& config() const { return config_; }

  // ---- Parts.
  MemoryLimits& limits();
  SleepGate& sleep_gate();

  // For the other headers of the facade: registry.hpp defines it.
  State& state() const { return *state_; }

 private:
  const Driver& driver_;
  const Config config_;
  State* const state_;
};

}  // namespace custash
