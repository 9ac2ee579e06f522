// SPDX-License-Identifier: MIT
#include "allocator/cache/oom_ladder.hpp"

#include "allocator/base/thread.hpp"
#include "allocator/heap/size_policy.hpp"

#include <algorithm>

namespace custash {
namespace {

Status found(bool yes) {
  return yes ? Status() : Status(CUDA_ERROR_OUT_OF_MEMORY);
}

}  // namespace

// The ladder: all rungs of one cache, in order. Those of the facade follow
// (allocator/oom_ladder.cpp). docs/decisions/18-ladder.md has a line for each.
const OomLadder::Rung OomLadder::kRungs[] = {
    &OomLadder::take_passed,
    &OomLadder::wait_for_frees,
    &OomLadder::wait_for_limbo,
    &OomLadder::trim,
    &OomLadder::take_gap,
};

Status OomLadder::grow_or_climb(const Request& request, Address* out) {
  const CancellationOff off;
  Status status = grow(request, out);
  if (status.code() != CUDA_ERROR_OUT_OF_MEMORY) return status;
  {
    CacheLock lock(core_.mutex);
    ++core_.stats.num_alloc_retries;
  }
  for (const Rung rung : kRungs) {
    status = (this->*rung)(request, out);
    if (status.code() != CUDA_ERROR_OUT_OF_MEMORY) break;
  }
  return status;
}

Status OomLadder::grow(const Request& request, Address* out) {
  const bool nearly_full = core_.headroom.update();
  if (nearly_full && find_before_growing(request, out)) return {};
  if (core_.shared.whole_blocks.on() && !request.small() && core_.memory.vmm()) {
    if (const Bytes excess = growth_.excess(request); excess != 0)
      reclaim_.trim({.bytes = excess}, nullptr).ignore();  // the driver may have the room
  }
  return growth_.grow(request, out);
}

// On a nearly full device placement matters, so it waits for frees before it makes memory.
// Patience limits every wait that the program does not have without custash.
bool OomLadder::find_before_growing(const Request& request, Address* out) {
  if (search_all(request, out)) return true;
  const bool waiting = core_.limbo_high.load() > fences_.passed();
  if (!waiting || core_.timeline.events().capturing()) return false;
  waits_.wait_for_frees().ignore();  // broken() reports it
  return search_all(request, out) || (waits_.wait_for_all_frees() && search_all(request, out));
}

bool OomLadder::search_all(const Request& request, Address* out) {
  CacheLock lock(core_.mutex);
  thread_caches_.empty_all();
  *out = search_.take(request, core_.reuse_limits(request, core_.debt_allowed()));
  if (*out == 0) *out = search_.take_across(request);
  if (*out == 0) *out = search_.take_in_debt(request);
  return *out != 0;
}

// Finds blocks whose work has passed meanwhile, and blocks that can be taken in debt.
Status OomLadder::take_passed(const Request& request, Address* out) {
  fences_.poll(std::max(core_.limbo_high.load(), fences_.newest()));
  return found(search_all(request, out));
}

// Waits for the frees in limbo, as the program would at cudaFree without custash, and for
// streams that freed memory. Then the freed pages can be moved.
Status OomLadder::wait_for_frees(const Request& request, Address* out) {
  return found(waits_.wait_for_frees().ok() &&
               (search_all(request, out) || grow(request, out).ok()));
}

Status OomLadder::wait_for_limbo(const Request& request, Address* out) {
  return found(waits_.wait_for_all_frees() &&
               (search_all(request, out) || grow(request, out).ok()));
}

// Releases just enough, of which the driver can make one piece, and if that fails everything.
Status OomLadder::trim(const Request& request, Address* out) {
  const PlainTrim plain = waits_.plain_may_go() ? PlainTrim::Now : PlainTrim::No;
  const Bytes enough = align_up(std::max(request.rounded, kSlabBytes), kPageBytes);
  for (const Bytes bytes : {enough, ~Bytes{0}}) {
    Status status = reclaim_.trim({.bytes = bytes, .plain = plain}, nullptr);
    if (status.ok()) status = grow(request, out);
    if (status.code() != CUDA_ERROR_OUT_OF_MEMORY) return status;
    if (search_all(request, out)) return {};
  }
  return CUDA_ERROR_OUT_OF_MEMORY;
}

Status OomLadder::take_gap(const Request& request, Address* out) {
  CacheLock lock(core_.mutex);
  *out = search_.take_any_gap(request);
  return found(*out != 0);
}

// If debt is not allowed, a program that frees and allocates in turn would hold ever more
// memory. So the allocation waits for the oldest frees, as the program would at cudaFree
// without custash.
bool OomLadder::take_after_wait(const Request& request, Address* out) {
  while (*out == 0 && !core_.timeline.events().capturing() && fences_.wait_oldest_free()) {
    CacheLock lock(core_.mutex);
    *out = search_.take(request, core_.reuse_limits(request, false));
  }
  return *out != 0;
}

void OomLadder::give_way() {
  waits_.wait_for_frees().ignore();
  (void)waits_.wait_for_all_frees();
  reclaim_.trim({.plain = waits_.plain_may_go() ? PlainTrim::Now : PlainTrim::No}, nullptr)
      .ignore();
}

}  // namespace custash
