// SPDX-License-Identifier: MIT
// Submission: the scope around one driver call that submits work to a stream. Owned by the
// calling thread.
#pragma once

#include "allocator/base/units.hpp"
#include "allocator/cache/captures.hpp"
#include "allocator/order/calls_under_way.hpp"
#include "allocator/order/position.hpp"
#include "allocator/submission_kind.hpp"

#include <array>
#include <span>
#include <string_view>
#include <vector>

#include <cuda.h>

namespace custash {

class Allocator;
class ContextCache;
class StreamState;

// What a call names. Asked only where a capture takes the call in: appends the addresses, and
// says how much of the call it could read. Without `read` the call may name any block.
struct CallNames {
  Captures::Reading (*read)(const void* call, std::vector<Address>* addresses) = nullptr;
  const void* call = nullptr;
};

// Around exactly one driver call that submits work to a stream:
//
//   Submission submission(allocator, stream, NullStream::Legacy, SubmissionKind::Hidden);
//   CUresult result = real_call(...);
//   submission.done(result);
//
// The constructor marks the stream active and pays debt that is due on it; done() counts the
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
             Address second_touched = 0,
             const CallNames& names = {});
  ~Submission();

  Submission(const Submission&) = delete;
  Submission& operator=(const Submission&) = delete;

  void done(CUresult result);

  // The submission to `stream` that follows touches all of these: for those that name more
  // than two.
  static void will_touch(Allocator& core,
                         CUstream stream,
                         NullStream null,
                         std::span<const CUdeviceptr> addresses);

  // A copy of `context` will name these addresses, by a way that is no submission: a graph's
  // node.
  static void let_copies_reach(Allocator& core,
                               CUcontext context,
                               Address first,
                               Address second);

  // The program asked for a device pointer to host memory or allocated managed memory: from now
  // on any kernel's effect may be visible to the host. `call` is named in the log, once.
  // Unnamed: kernels reach the memory without an address in their parameters.
  enum class Reach { Addressed, Unnamed };
  static void kernels_become_host_visible(Allocator& core,
                                          std::string_view call,
                                          Reach reach = Reach::Addressed);
  static bool kernels_host_visible(const Allocator& core);

  // A programmatic dependent launch may begin before the kernel in front of it has ended, so
  // that the order of its own stream is no fence. A position: memory is owed that rests on this
  // order. Launch without the attribute that allows it, then call order_given().
  static Position order_wanted(Allocator& core, CUstream stream, NullStream null);
  static void order_given(Allocator& core, CUstream stream, NullStream null, Position owed);

 private:
  ContextCache* cache_ = nullptr;
  StreamState* stream_state_ =
      nullptr;  // null: nothing to count (no context, or the call is captured)
  bool host_visible_ = false;
  bool reaches_host_ = false;
  std::array<ContextCache*, 2> others_ = {};  // of other contexts, whose blocks it touches
  std::array<Address, 2> touched_ = {};
  CallsUnderWay::Call reaching_ = {};
  bool step_ = false;  // no thread may record a fence meanwhile
};

}  // namespace custash
