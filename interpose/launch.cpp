// SPDX-License-Identifier: MIT
// One call that submits to several streams at once.
#include "interpose/handlers.hpp"
#include "interpose/process.hpp"

namespace custash::handlers {
namespace {

// One Submission a stream, all alive around the call.
template <typename Call>
CUresult submit_from(Allocator& core, const CUDA_LAUNCH_PARAMS* list, unsigned count, Call call) {
  if (count == 0) return call();
  Submission submission(core, list->hStream, NullStream::Legacy, HostView::Hidden);
  const CUresult result = submit_from(core, list + 1, count - 1, call);
  submission.done(result);
  return result;
}

}  // namespace

CUresult launch_multi_device(Real<CUDA_LAUNCH_PARAMS*, unsigned, unsigned> real, NullStream,
                             CUDA_LAUNCH_PARAMS* list, unsigned count, unsigned flags) {
  constexpr unsigned kMostDevices = 256;  // more than any machine has: a call that will be refused
  Allocator* const core = process::core();
  if (core == nullptr || list == nullptr || count > kMostDevices) return real(list, count, flags);
  return submit_from(*core, list, count, [&] { return real(list, count, flags); });
}

}  // namespace custash::handlers
