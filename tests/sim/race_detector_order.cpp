// SPDX-License-Identifier: MIT
// What work submitted to a stream now would come after: the point at which a free or an
// allocation on that stream stands. The same rule as the engine's, for streams of the current
// context.
#include "tests/sim/entry.hpp"
#include "tests/sim/race_detector.hpp"

namespace custash::sim {

std::vector<OpId> order_point(CUstream handle) {
  Guard guard;
  ThreadState& thread = thread_state(*guard);
  CUresult why = CUDA_SUCCESS;
  Context* context = current_context(*guard, thread, &why);
  if (context == nullptr) return {};
  const Stream* stream = find_stream(*guard, thread, context, false, handle);
  if (stream == nullptr) return {};
  context = stream->context;

  std::vector<OpId> after{stream->last, context->barrier, context->home->barrier};
  if (stream->blocking()) after.push_back(context->legacy->last);
  if (stream->kind != StreamKind::Legacy) return after;
  for (const auto& [id, own] : context->per_thread)
    after.push_back(own->last);
  for (const Stream* other : context->streams) {
    if (other->blocking()) after.push_back(other->last);
  }
  after.insert(after.end(), context->orphans_blocking.begin(), context->orphans_blocking.end());
  return after;
}

}  // namespace custash::sim
