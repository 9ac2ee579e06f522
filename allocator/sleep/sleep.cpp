// SPDX-License-Identifier: MIT
// Proved: tests/models/sleep.pml.
#include "allocator/sleep/sleep.hpp"

#include "allocator/base/log.hpp"
#include "allocator/base/scope.hpp"
#include "allocator/base/words.hpp"
#include "allocator/registry.hpp"
#include "allocator/sleep/moving_pages.hpp"
#include "allocator/sleep/standstill.hpp"

#include <algorithm>
#include <utility>

namespace custash {

void append(std::string* text, const char* separator, Bytes bytes, const char* of_what) {
  if (bytes != 0) *text += (text->empty() ? "" : separator) + in_mib(bytes) + " " + of_what;
}

namespace {

std::string what_stays(const SleepSums& sums) {
  std::string text;
  append(&text, ", ", sums.plain, "from cuMemAlloc");
  append(&text, ", ", sums.exported, "exported");
  append(&text, ", ", sums.registered, "with SYNC_MEMOPS");
  append(&text, ", ", sums.refused, "that the driver kept");
  append(&text, ", ", sums.mapped, "that the program mapped and shares, or maps in parts");
  return text;
}

// One attempt to go to sleep. Its destructor undoes what is not finished.
struct Attempt {
  ~Attempt() {
    if (chosen) {
      for (ContextCache* cache : still.caches())
        if (MovingPages* const moved = moved_pages(*cache)) moved->sleeping.cancel();
    }
    still.open();
    store.stop();
  }

  // The program's own mappings go with the first context of their device.
  [[nodiscard]] MappedMemory* mapped_with(const ContextCache& cache) const;
  // Each: empty if it is done, else why not.
  std::string run();
  std::string reserve();
  std::string save();

  const Driver& driver;
  HostStore& store;
  MappedMemory* const mapped;
  SleepAnswer& answer;
  Standstill still;
  const bool retry;   // the one before found its reserve too small
  const bool asleep;  // when it began
  bool chosen = false;
  bool again = false;
};

MappedMemory* Attempt::mapped_with(const ContextCache& cache) const {
  const auto first =
      std::find_if(still.caches().begin(), still.caches().end(), [&](ContextCache* each) {
        return each->device() == cache.device();
      });
  return *first == &cache ? mapped : nullptr;
}

std::string Attempt::run() {
  // A process that sleeps already may wake at any time, and waking reads what is reserved.
  std::string why = asleep ? "" : reserve();
  if (why.empty()) why = still.begin(true);
  if (why.empty() && asleep) why = reserve();
  const Quota::Call call;
  if (why.empty()) why = save();
  if (!why.empty()) return why;
  Bytes away = 0;
  for (ContextCache* cache : still.caches())
    away += cache->still_pages().away_bytes();
  still.leave_asleep(away, wake_up);
  answer.standstill = still.lasts();
  return {};
}

std::string Attempt::reserve() {
  std::string why;
  const bool done = still.each_chosen([&](ContextCache& cache) {
    PageContents& contents = moving_pages(cache).sleeping.contents();
    const Bytes bytes =
        contents.reserve_for(moving_pages(cache).sleeping.needed(mapped_with(cache)), retry);
    const Bytes more = bytes - std::min(bytes, contents.reserved());
    if (!store.has_room(more, &why)) {
      contents.not_reserved();
      return false;
    }
    const RelaxedCapture relaxed(driver);
    if (contents.reserve(store, bytes, &why)) return true;
    if (why.empty())
      why = "host memory: needs " + in_mib(bytes) + ", and the system refuses it";
    return false;
  });
  if (done && store.make(&why)) return {};
  return why.empty() ? "a context cannot be made current" : why;
}

std::string Attempt::save() {
  // Cached memory goes first. What the driver refuses stays.
  still.each_chosen([](ContextCache& cache) {
    cache.trim({.plain = PlainTrim::WhenIdle}).ignore();
    return true;
  });
  chosen = true;
  bool fits = true;  // asked of every context, since each learns how much it takes
  bool copied = still.each_chosen([&](ContextCache& cache) {
    fits = moving_pages(cache).sleeping.choose(mapped_with(cache), &answer.sums) && fits;
    return true;
  });
  if (!fits) {
    again = true;
    return "the program allocates faster than host memory can be reserved";
  }
  if (answer.sums.asleep == 0) {
    if (still.was_asleep()) {
      answer.already = true;
      return "the process is asleep";
    }
    const std::string stays = what_stays(answer.sums);
    return stays.empty() ? "there is no device memory" : "all stays awake: " + stays;
  }
  std::string why;
  copied = copied && still.each_chosen([&](ContextCache& cache) {
    return moving_pages(cache).sleeping.copy_out(store, &answer.sums, &why).ok();
  });
  if (!copied) return why.empty() ? "the driver refuses to copy" : why;
  if (still.disturbed()) return "the program has submitted work meanwhile";
  chosen = false;
  for (ContextCache* cache : still.caches())
    if (MovingPages* const moved = moved_pages(*cache))
      moved->sleeping.give_back(mapped, &answer.sums);
  return {};
}

}  // namespace

SleepAnswer Sleep::go(const SleepRequest& request) {
  SleepAnswer answer;
  const Nanoseconds start = state_.driver.now();
  const auto refuse = [&](std::string why) {
    answer.text = std::move(why);
    log(LogLevel::Info, "event=sleep_refused reason=\"" + answer.text + "\"");
    return answer;
  };
  if (std::string never = Standstill::refusal(state_); !never.empty())
    return refuse(std::move(never));
  const Sleeping::Turn turn(state_.sleeping);
  if (!turn) return refuse("the process is going to sleep, or has just woken");
  const SleepState now = state();
  if (now != SleepState::Awake && now != SleepState::Asleep)
    return refuse(std::string("the process is ") + sleep_state_name(now));
  std::string why;
  constexpr int kTries = 4;  // the first shows how much is not of one value
  for (int i = 0; i < kTries; ++i) {
    answer = {};
    Attempt attempt{state_.driver,
                    state_.sleeping.store(),
                    state_.sleeping.mapped(),
                    answer,
                    {state_, request},
                    i > 0,
                    now == SleepState::Asleep};
    try {
      why = attempt.run();
    } catch (...) {
      why = "host memory: none is left";
    }
    answer.disturbed = !why.empty() && attempt.still.disturbed();
    if (!attempt.again) break;
  }
  if (!state_.sleep_gate.closed()) shrink_saved(state_);  // who woke it could not, beside us
  if (!why.empty()) return refuse(why);
  answer.asleep = true;
  const std::string stays = what_stays(answer.sums);
  const Bytes in_file = answer.sums.in_file;
  answer.text =
      in_mib(answer.sums.asleep) + " asleep, of which " + in_mib(answer.sums.saved - in_file) +
      " are in host memory" +
      (in_file == 0 ? "" : " and " + in_mib(in_file) + " in " + state_.config.sleep_dir) +
      ", after " + std::to_string((state_.driver.now() - start) / 1'000'000) + " ms" +
      (answer.sums.kept == 0
           ? ""
           : "; unchanged since the last sleep: " + in_mib(answer.sums.kept)) +
      (answer.sums.compared ? ""
                            : "; all was copied: the driver does not run custash's kernel") +
      (stays.empty() ? "" : "; stays awake: " + stays);
  log(LogLevel::Info,
      "event=asleep text=\"" + answer.text +
          "\" standstill_ms=" + std::to_string(answer.standstill / 1'000'000));
  return answer;
}

}  // namespace custash
