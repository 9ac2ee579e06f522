// SPDX-License-Identifier: MIT
#include "allocator/deep_trim.hpp"

#include "allocator/base/log.hpp"
#include "allocator/registry.hpp"
#include "allocator/standstill.hpp"

#include <algorithm>
#include <utility>

namespace custash {
namespace {

std::string as_mib(Bytes bytes) {
  return std::to_string(bytes >> 20U) + " MiB";
}

std::string told(const CutSums& sums) {
  std::string text = as_mib(sums.trimmed + sums.given) + " returned, of which " +
                     as_mib(sums.given) + " from pages that are partly in use; " +
                     as_mib(sums.copied) + " copied";
  const auto add = [&](Bytes bytes, const char* reason) {
    if (bytes != 0) text += "; " + as_mib(bytes) + " " + reason;
  };
  add(sums.stays.exported, "in pages that stay whole: exported");
  add(sums.stays.registered, "in pages that stay whole: SYNC_MEMOPS");
  add(sums.stays.refused, "in pages that stay whole: the driver refuses");
  add(sums.unmapped, "to be mapped again by the next submission");
  return text;
}

// Bytes that went back.
Bytes trim(Allocator::State& state, ContextCache& cache) {
  const DeviceBudget& budget = state.budget(cache.device());
  const Bytes before = budget.held();
  cache.trim({.plain = PlainTrim::WhenIdle}).ignore();  // what is refused stays
  return before - std::min(before, budget.held());
}

}  // namespace

// One try. Its destructor leaves whole what is not cut.
class DeepTrim::Attempt {
 public:
  Attempt(Allocator::State& state, const SleepRequest& request)
      : state_(state), still_(state, request) {}

  ~Attempt() {
    Bytes unmapped = 0;
    for (ContextCache* cache : still_.caches()) {
      cache->still_pages().cutter.cancel();
      unmapped += cache->still_pages().cutter.unmapped();
    }
    if (unmapped != 0) still_.leave_asleep(unmapped);
  }

  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;

  // Empty: done, maybe in part. Else why not.
  std::string run(CutSums* sums);

 private:
  Allocator::State& state_;
  Standstill still_;
};

std::string DeepTrim::Attempt::run(CutSums* sums) {
  if (std::string why = still_.close(); !why.empty()) return why;
  if (std::string why = still_.wait_until_idle(); !why.empty()) return why;
  const bool all = still_.each_chosen([&](ContextCache& cache) {
    sums->trimmed += trim(state_, cache);
    cache.still_pages().cutter.choose(sums);
    while (!still_.disturbed() && cache.still_pages().cutter.cut_next(sums)) {
    }
    return true;
  });
  return all ? std::string() : "a context cannot be made current";
}

DeepTrimAnswer DeepTrim::go(const SleepRequest& request) {
  DeepTrimAnswer answer;
  std::string why = Standstill::refusal(state_);
  const Sleeping::Turn turn(state_.sleeping);
  if (why.empty() && !turn) why = "the process is going to sleep, or has just woken";
  try {
    visit_living(request.device < 0 ? state_.all() : state_.on_device(request.device),
                 [&](ContextCache& cache) { answer.sums.trimmed += trim(state_, cache); });
    if (why.empty()) why = Attempt(state_, request).run(&answer.sums);
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
