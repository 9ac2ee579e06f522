// SPDX-License-Identifier: MIT
#include "allocator/sleep/deep_trim.hpp"

#include "allocator/base/log.hpp"
#include "allocator/base/words.hpp"
#include "allocator/registry.hpp"
#include "allocator/sleep/moving_pages.hpp"
#include "allocator/sleep/standstill.hpp"

#include <algorithm>

namespace custash {
namespace {

std::string told(const CutSums& sums) {
  std::string text = in_mib(sums.trimmed + sums.given) + " returned, of which " +
                     in_mib(sums.given) + " from pages that are partly in use; " +
                     in_mib(sums.copied) + " copied";
  append(&text, "; ", sums.stays.exported, "in pages that stay whole: exported");
  append(&text, "; ", sums.stays.registered, "in pages that stay whole: SYNC_MEMOPS");
  append(&text, "; ", sums.stays.refused, "in pages that stay whole: the driver refuses");
  append(&text, "; ", sums.unmapped, "to be mapped again by the next submission");
  return text;
}

// Bytes released to the driver.
Bytes trim(Allocator::State& state, ContextCache& cache) {
  const DeviceBudget& budget = state.limits.budget(cache.device());
  const Bytes before = budget.held();
  cache.trim({.plain = PlainTrim::WhenIdle}).ignore();  // what is refused stays
  return before - std::min(before, budget.held());
}

// The attempt ends: what is not cut stays whole.
struct Uncut {
  ~Uncut() {
    Bytes unmapped = 0;
    for (ContextCache* cache : still.caches()) {
      if (MovingPages* const moved = moved_pages(*cache)) moved->cutter.cancel();
      unmapped += cache->still_pages().unmapped.load();
    }
    if (unmapped != 0) still.leave_asleep(unmapped, wake_up);
  }

  Standstill& still;
};

// Empty: done, maybe in part. Else why not.
std::string cut(Allocator::State& state, const SleepRequest& request, CutSums* sums) {
  Standstill still(state, request);
  const Uncut uncut{still};
  if (std::string why = still.begin(); !why.empty()) return why;
  const bool all = still.each_chosen([&](ContextCache& cache) {
    sums->trimmed += trim(state, cache);
    PageCutter& cutter = moving_pages(cache).cutter;
    cutter.choose(sums);
    while (!still.disturbed() && cutter.cut_next(sums)) {
    }
    return true;
  });
  return all ? std::string() : "a context cannot be made current";
}

// For the ladder, where it gives enough. It waits for work that the driver would not wait for,
// so not for long.
bool try_to_cut(Allocator::State& state, CUdevice device, Bytes bytes) {
  Bytes gain = 0;
  CopyStream unused(state.driver);  // this thread may not move pages yet
  visit_living(state.on_device(device), [&](ContextCache& each) {
    gain += PageCutter(each.still_pages(), unused).gain();
  });
  const std::optional<Bytes> free = state.driver.free_bytes();
  if (gain == 0 || !free) return false;
  if (std::min(*free, state.limits.budget(device).room()) + gain < bytes) return false;
  constexpr Nanoseconds kSecond = 1'000'000'000;
  const Nanoseconds patience = std::min(state.config.patience, 1U) * kSecond;
  return DeepTrim(state).go({.device = device, .patience = patience}).sums.given != 0;
}

// An exception stays in its library.
bool cut_pages(Allocator::State& state, CUdevice device, Bytes bytes) {
  try {
    return try_to_cut(state, device, bytes);
  } catch (...) {  // no host memory
    return false;
  }
}

}  // namespace

// Order: what it calls was there before.
void DeepTrim::serve_requests() {
  if (state_.config.deep_trim_after != 0) state_.cut_pages.store(cut_pages);
}

DeepTrimAnswer DeepTrim::go(const SleepRequest& request) {
  DeepTrimAnswer answer;
  std::string why = Standstill::refusal(state_);
  const Sleeping::Turn turn(state_.sleeping);
  if (why.empty() && !turn) why = "the process is going to sleep, or has just woken";
  try {
    visit_living(request.device < 0 ? state_.all() : state_.on_device(request.device),
                 [&](ContextCache& cache) { answer.sums.trimmed += trim(state_, cache); });
    if (why.empty()) why = cut(state_, request, &answer.sums);
  } catch (...) {
    why = "host memory: none is left";
  }
  answer.done = why.empty();
  answer.text = told(answer.sums);
  if (!answer.done) answer.text += "; pages that are partly in use stay whole: " + why;
  log(LogLevel::Info,
      std::string("event=deep_trim done=") + (answer.done ? "yes" : "no") + " text=\"" +
          answer.text + "\"");
  return answer;
}

}  // namespace custash
