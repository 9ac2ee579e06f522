// SPDX-License-Identifier: MIT
#include "interpose/build_id.hpp"
#include "interpose/check/core_table.hpp"
#include "interpose/process/descriptors.hpp"
#include "interpose/process/sleep_library.hpp"
#include "interpose/service/service.hpp"
#include "pinned/sleep_store.hpp"

#include <charconv>
#include <string>
#include <utility>

namespace custash {
namespace {

constexpr Nanoseconds kMillisecond = 1'000'000;
constexpr Nanoseconds kSecond = 1'000'000'000;

bool read_two(std::string_view text, int* first, int* second) {
  const char* const end = text.data() + text.size();
  const auto one = std::from_chars(text.data(), end, *first);
  if (one.ec != std::errc() || one.ptr == end || *one.ptr != ' ') return false;
  const auto two = std::from_chars(one.ptr + 1, end, *second);
  return two.ec == std::errc() && two.ptr == end && *second >= 0;
}

bool read_request(std::string_view arguments, SleepRequest* request, service::Answer* answer) {
  int milliseconds = 0;
  if (!read_two(arguments, &request->device, &milliseconds)) {
    answer->status = service::ReplyStatus::BadArguments;
    return false;
  }
  request->patience = static_cast<Nanoseconds>(milliseconds) * kMillisecond;
  request->gives_way = service::paused;
  return true;
}

void answer_with(bool done, std::string text, service::Answer* answer) {
  answer->text = std::move(text);
  if (!done) answer->status = service::ReplyStatus::Refused;
}

// Free memory that custash holds, of all devices.
std::int64_t cached_bytes(Allocator& core) {
  constexpr auto kAll = static_cast<std::size_t>(StatPool::All);
  int devices = 0;
  std::int64_t sum = 0;
  if (core.driver().device_get_count(&devices) != CUDA_SUCCESS) devices = 0;
  for (int device = 0; device < devices; ++device) {
    const DeviceStats now = core.stats(device);
    sum += now.reserved_bytes[kAll].current - now.allocated_bytes[kAll].current;
  }
  return sum;
}

// How long the process has submitted no work. For the service's thread alone.
class Idleness {
 public:
  // For an action that is due after this much idle time. `disturbed`: it counts from now on.
  [[nodiscard]] bool lasts(Nanoseconds limit,
                           std::uint64_t submissions,
                           Nanoseconds now,
                           bool disturbed) {
    if (submissions != last_ || since_ == 0 || disturbed) {
      last_ = submissions;
      since_ = now;
      return false;
    }
    return now - since_ >= limit;
  }

  // It is requested again after the same time.
  void begin_again(Nanoseconds now) { since_ = now; }

 private:
  std::uint64_t last_ = 0;
  Nanoseconds since_ = 0;
};

void answer_sleep(Allocator& core, std::string_view arguments, service::Answer* answer) {
  SleepRequest request;
  if (!read_request(arguments, &request, answer)) return;
  SleepAnswer result = Sleep(core).go(request);
  if (result.already) return answer_with(true, "asleep already", answer);
  answer_with(result.asleep, std::move(result.text), answer);
}

void answer_deep_trim(Allocator& core, std::string_view arguments, service::Answer* answer) {
  SleepRequest request;
  if (!read_request(arguments, &request, answer)) return;
  DeepTrimAnswer result = DeepTrim(core).go(request);
  answer_with(result.done, std::move(result.text), answer);
}

// The look at whether the process idles (sleep_after:, deep_trim_after:).
void tick(Allocator& core) {
  static Idleness before_deep_trim;
  static Idleness before_sleep;
  static std::uint64_t trimmed_at = ~std::uint64_t{0};  // submissions at the last deep trim
  static std::int64_t left = 0;                         // what it could not release
  constexpr Nanoseconds kPatience = 100 * kMillisecond;
  const Config& config = core.config();
  Sleep sleep(core);
  const Nanoseconds now = core.driver().now();
  const std::uint64_t submissions = sleep.submissions();
  const bool away = sleep.state() != SleepState::Awake;
  if (config.sleep_pinned != 0) sleep.give_up_copies();
  if (config.deep_trim_after != 0 &&
      before_deep_trim.lasts(config.deep_trim_after * kSecond, submissions, now, away) &&
      (submissions != trimmed_at || cached_bytes(core) > left)) {
    if (DeepTrim(core).go({.patience = kPatience, .only_if_idle = true}).done) {
      trimmed_at = submissions;
      left = cached_bytes(core);
    }
    before_deep_trim.begin_again(core.driver().now());
  }
  if (config.sleep_after != 0 &&
      before_sleep.lasts(config.sleep_after * kSecond, submissions, now, away)) {
    (void)sleep.go({.patience = kPatience, .only_if_idle = true});
    before_sleep.begin_again(core.driver().now());
  }
}

void begin(Allocator& core) {
  static const SleepStore* const made = [&] {
    auto* const store = new SleepStore(core.driver(), core.config());  // never destroyed
    FileCalls calls;
    calls.keep = [](int fd) { return descriptors().keep(fd); };
    calls.drop = [](int fd) { descriptors().drop(fd); };
    store->set_calls(calls);
    Sleep(core).set_store(*store);
    DeepTrim(core).serve_requests();
    return store;
  }();
  (void)made;
}

SleepAnswer sleep(Allocator& core, const SleepRequest& request) {
  return Sleep(core).go(request);
}

DeepTrimAnswer deep_trim(Allocator& core, const SleepRequest& request) {
  return DeepTrim(core).go(request);
}

constexpr SleepLibrary kLibrary{
    .build = kBuild,
    .out_of_memory = throw_bad_alloc,
    .begin = Contained<begin>::call,
    .sleep = Contained<sleep>::call,
    .deep_trim = Contained<deep_trim>::call,
    .answer_sleep = Contained<answer_sleep>::call,
    .answer_deep_trim = Contained<answer_deep_trim>::call,
    .tick = Contained<tick>::call,
};

}  // namespace

const SleepLibrary* open_sleep(const CoreTable* core) {
  use_core(core);
  prepare_unwinder();
  return &kLibrary;
}

}  // namespace custash
