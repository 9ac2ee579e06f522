// SPDX-License-Identifier: MIT
// Launches that need more than a submission: those that need not wait for the kernel before
// them, and one call that submits to several streams at once.
// clang-format off: first, as it includes cuda.h without the renaming macros
#include "allocator/submission.hpp"
#include "interpose/hooks/hook.hpp"
// clang-format on
#include "allocator/base/rule.hpp"
#include "interpose/hooks/handlers.hpp"
#include "interpose/hooks/host_view.hpp"

#include <algorithm>
#include <vector>

namespace custash::handlers {
namespace {

// One Submission for each stream, all alive around the call.
template <typename Call>
CUresult submit_from(Allocator& core,
                     const CUDA_LAUNCH_PARAMS* list,
                     unsigned count,
                     Call call) {
  if (count == 0) return call();
  const SubmissionKind view =
      views::of_kernel(core, list->function, list->kernelParams, nullptr);
  const auto names = [&](std::vector<Address>* named) {
    return call_names::of_kernel(list->function, list->kernelParams, nullptr, named);
  };
  Submission submission(
      core, list->hStream, NullStream::Legacy, view, 0, 0, call_names::ask(names));
  const CUresult result = submit_from(core, list + 1, count - 1, call);
  submission.done(result);
  return result;
}

bool may_begin_early(const CUlaunchAttribute& attribute) {
  return attribute.id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION &&
         attribute.value.programmaticStreamSerializationAllowed != 0;
}

}  // namespace

// The attribute only permits an overlap. Without it the launch follows all that its stream
// holds.
CUresult launch_kernel_ex(Real<const CUlaunchConfig*, CUfunction, void**, void**> real,
                          NullStream null,
                          const CUlaunchConfig* config,
                          CUfunction function,
                          void** params,
                          void** extra) {
  CUlaunchConfig ordered{};
  std::vector<CUlaunchAttribute> attributes;
  Position owed;
  SubmissionKind view = views::Hidden;
  bool in_order = false;
  Allocator* const core = process::core();
  if (core != nullptr) view = views::of_kernel(*core, function, params, extra);
  if (core != nullptr && config != nullptr && config->attrs != nullptr &&
      std::any_of(config->attrs, config->attrs + config->numAttrs, may_begin_early)) {
    owed = Submission::order_wanted(*core, config->hStream, null);
    // A launch that may use memory freed before must follow all that those frees left to the
    // stream's order.
    in_order = !owed.none() || view == SubmissionKind::ReachesHost;
  }
  if (in_order && holds(Rule::early_launches_lose_their_attribute)) {
    attributes.assign(config->attrs, config->attrs + config->numAttrs);
    for (CUlaunchAttribute& each : attributes)
      if (may_begin_early(each)) each.value.programmaticStreamSerializationAllowed = 0;
    ordered = *config;
    ordered.attrs = attributes.data();
  }
  const CUlaunchConfig* const given = attributes.empty() ? config : &ordered;
  const CUresult result = hooks::submit<Role::LaunchEx>(
      real,
      null,
      views::stream_of(config),
      [view](Allocator&) { return view; },
      0,
      0,
      [&](std::vector<Address>* named) {
        return call_names::of_kernel(function, params, extra, named);
      },
      [&](auto* call) { return call(given, function, params, extra); });
  if (!owed.none() && result == CUDA_SUCCESS)
    Submission::order_given(*core, config->hStream, null, owed);
  return result;
}

CUresult launch_multi_device(Real<CUDA_LAUNCH_PARAMS*, unsigned, unsigned> real,
                             NullStream,
                             CUDA_LAUNCH_PARAMS* list,
                             unsigned count,
                             unsigned flags) {
  constexpr unsigned kMostDevices =
      256;  // more than any machine has: a call that will be refused
  Allocator* const core = process::core();
  if (core == nullptr || list == nullptr || count > kMostDevices)
    return real(list, count, flags);
  return submit_from(*core, list, count, [&] { return real(list, count, flags); });
}

}  // namespace custash::handlers
