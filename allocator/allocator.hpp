// SPDX-License-Identifier: MIT
// Allocator: the facade of the core, the only header of it that the folders above include.
// Routes by context and by address to one ContextCache a context. Thread safe throughout; no
// lock is held across a driver call. Created once and never destroyed.
#pragma once

#include "allocator/base/config.hpp"
#include "allocator/base/driver.hpp"
#include "allocator/base/inventory.hpp"
#include "allocator/base/stats.hpp"
#include "allocator/base/status.hpp"
#include "allocator/base/units.hpp"
#include "allocator/heap/block_info.hpp"
#include "allocator/order/calls_under_way.hpp"
#include "allocator/order/host_use.hpp"
#include "allocator/submission_kind.hpp"

#include <array>
#include <optional>
#include <span>
#include <string_view>

namespace custash {

class ContextUsers;
class ContextCache;
class Lane;

class Allocator {
 public:
  struct State;  // allocator/registry.hpp

  // Both are kept by reference/copied; the driver table must outlive the process's last call.
  Allocator(const Driver& driver, const Config& config);

  Allocator(const Allocator&) = delete;
  Allocator& operator=(const Allocator&) = delete;

  // ---- Plain calls (cuMemAlloc, cuMemFree): the owner may use any stream, at once.

  // `context` must be current to the calling thread. bytes > 0. On failure *out is untouched.
  Status allocate(CUcontext context, Bytes bytes, Address* out);

  // The same, only where no driver call is needed; 0 where one would be.
  Address try_allocate(CUcontext context, Bytes bytes);

  // nullopt: not ours, ask the driver. CUDA_ERROR_INVALID_VALUE: interior, or free already.
  std::optional<Status> free(Address address);

  // The same, only where no driver call is needed and the free succeeds; false where not.
  bool try_free(Address address);
  // The same where a fence, or a wait for what the host could see, is all that is missing.
  bool fence_and_free(Address address);

  // ---- Calls that name a stream (cuMemAllocAsync, cuMemFreeAsync, custash_malloc): ordered on
  // it.

  Status allocate_on(
      CUcontext context, CUstream stream, NullStream null, Bytes bytes, Address* out);
  std::optional<Status> free_on(Address address, CUstream stream, NullStream null);

  // The same, only from what the thread keeps ready; 0 or false where that is not enough.
  // `context` is current and the stream's.
  Address try_allocate_on(CUcontext context, CUstream stream, NullStream null, Bytes bytes);
  bool try_free_on(Address address, CUstream stream, NullStream null);

  // The block is in use on `stream` too: its reuse waits for what that stream holds at the
  // free. INVALID_VALUE when the address is not a live block of ours.
  Status record_stream(Address address, CUstream stream, NullStream null);

  // ---- Submissions: see class Submission below.

  // The program asked for a device pointer to host memory or allocated managed memory: from now
  // on any kernel's effect may be visible to the host. `call` is named in the log, once.
  // Unnamed: kernels reach the memory without an address in their parameters.
  enum class Reach { Addressed, Unnamed };
  void kernels_become_host_visible(std::string_view call, Reach reach = Reach::Addressed);
  [[nodiscard]] bool kernels_host_visible() const;

  // A programmatic dependent launch may begin before the kernel in front of it has ended, so
  // that the order of its own stream is no fence. Not 0: memory is owed that rests on this
  // order, and the launch must be made without the attribute that allows it; then it is told
  // so.
  std::uint64_t order_wanted(CUstream stream, NullStream null);
  void order_given(CUstream stream, NullStream null, std::uint64_t owed);

  // ---- Stream capture. Begin: call capture_begins before the driver's BeginCapture and
  // capture_begin_done(ok) after it; capture_ended after a driver EndCapture that ended one.
  void capture_begins(CUstream stream, NullStream null);
  void capture_begin_done(CUstream stream, NullStream null, bool began);
  void capture_ended(CUstream stream, NullStream null);
  // How many go on, in all contexts.
  [[nodiscard]] std::uint32_t captures_open() const;
  // Graphs and executables (each handle once): blocks allocated while their thread captured are
  // not recycled while any lives.
  void graph_created();
  void graph_destroyed();

  // ---- Pinned memory: what the device may still read or write there (host_tickets.hpp).
  // A ticket for everything submitted so far, in every context. Never waits. An error is that
  // of the buffer's own context.
  Status take_host_ticket(CUcontext own, std::uint64_t* ticket);
  [[nodiscard]] std::uint64_t host_tickets_passed() const;  // no driver call
  void poll_host_tickets();
  Status wait_host_ticket(std::uint64_t ticket);
  // An event behind what one stream holds now; an empty use where none can be had.
  HostUse record_host_use(CUstream stream, NullStream null);
  static bool host_use_over(const HostUse& use);
  // What option free: lets a plain free of the context's memory wait for.
  Status wait_as_free_does(CUcontext context);
  // The same answered without waiting: true when there is nothing to wait for.
  bool free_would_not_wait(CUcontext context);
  // A kernel of the context has faulted: only the driver has the right answers now.
  bool context_broken(CUcontext context);
  // A call has told the program of a fault on the device: from now on the driver answers in the
  // contexts where it was, be it an allocation that the cache could serve.
  void look_for_faults();
  // No context is known to have work in flight.
  bool idle();

  // ---- Lifetime of what we key by.

  // Where a call may end the context and may not, it is close()d before and open()ed after one
  // that has not. Null: nothing is kept of that context.
  ContextUsers* users_of(CUcontext context);

  void stream_destroyed(CUstream stream);     // call before the driver's
  void context_destroyed(CUcontext context);  // call before the driver's: forgets its segments
  void context_gone(CUcontext context);       // call after it: returns VMM pages that survive
  void peer_access_enabled(CUcontext owner,
                           CUcontext accessor);  // accessor may now read owner's memory
  // A submission to `stream` will touch all of these: for those that name more than two.
  void will_touch(CUstream stream, NullStream null, std::span<const CUdeviceptr> addresses);
  // A copy of `context` will name these addresses, by a way that is no submission: a graph's
  // node.
  void let_copies_reach(CUcontext context, Address first, Address second);

  // ---- Giving back.

  // Returns every page and segment that is free to the driver. May wait for work in flight only
  // where the driver itself does (cuMemFree of whole segments).
  Status empty_cache(CUcontext context);
  // The same of at least `bytes` if so much is free (whole pages, so it may be more); of what
  // was freed on one stream; of what has been free since the call before.
  Status trim(int device, Bytes bytes);
  Status trim_stream(CUstream stream, NullStream null);
  Status trim_idle(int device);
  void empty_all_caches();
  // Another allocating driver call failed for memory: waits for and returns what is needed;
  // true when something was returned and the call is worth a second try.
  bool relieve(CUcontext context);

  // The most that the device's contexts together may hold; all ones: no limit.
  void set_limit(int device, Bytes bytes);
  [[nodiscard]] Bytes limit(int device) const;
  // What could still be allocated under the limit, were all that is free given back.
  Bytes room_under_limit(CUcontext context);

  // Called when all else has failed, without a lock held: not 0 when it is worth another try.
  using OutOfMemoryHook = int (*)(int device, std::size_t bytes, void* data);
  void add_oom_hook(OutOfMemoryHook hook, void* data);
  bool remove_oom_hook(OutOfMemoryHook hook, void* data);  // false: it was not there

  // ---- ReuseLimits.

  [[nodiscard]] bool owns(Address address) const;    // in a segment of ours; takes no lock
  Ownership find(Address address, BlockInfo* info);  // info filled when Live; may be null
  Bytes reclaimable(CUcontext context);  // free or in limbo: what could be given back
  DeviceStats stats(int device);         // summed over the device's contexts
  Inventory inventory(int device);       // of all its contexts, each at a moment of its own
  void reset_peak_stats(int device);

  // Walks everything; false (and a log line) when an invariant does not hold. For tests.
  bool validate();

  // In the child after fork: resets locks. The child then only passes through (interpose/ sees
  // to it).
  void after_fork_in_child();

  const Driver& driver() const { return driver_; }

  const Config& config() const { return config_; }

 private:
  friend class PeerProcesses;

  friend class Submission;

  const Driver& driver_;
  const Config config_;
  State* const state_;
};

// Around exactly one driver call that submits work to a stream:
//
//   Submission submission(allocator, stream, NullStream::Legacy, SubmissionKind::Hidden);
//   CUresult result = real_call(...);
//   submission.done(result);
//
// The constructor marks the lane active and pays debt that is due on it; done() counts the
// submission (only once the driver has it). The destructor counts too where done() was not
// reached. `touched` names addresses that a copy reads or writes, so that debt of other
// contexts is seen.
class Submission {
 public:
  Submission(Allocator& allocator,
             CUstream stream,
             NullStream null,
             SubmissionKind view,
             Address first_touched = 0,
             Address second_touched = 0);
  ~Submission();

  Submission(const Submission&) = delete;
  Submission& operator=(const Submission&) = delete;

  void done(CUresult result);

 private:
  ContextCache* cache_ = nullptr;
  Lane* lane_ = nullptr;  // null: nothing to count (no context, or the call is captured)
  bool host_visible_ = false;
  bool reaches_host_ = false;
  std::array<ContextCache*, 2> others_ = {};  // of other contexts, whose blocks it touches
  std::array<Address, 2> touched_ = {};
  CallsUnderWay::Call reaching_ = {};
  bool step_ = false;  // nobody may record a fence meanwhile
};

}  // namespace custash
