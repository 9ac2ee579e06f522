// SPDX-License-Identifier: MIT
#include "interpose/service/sleep_verbs.hpp"

#include "allocator/sleep.hpp"

#include <charconv>

namespace custash::sleep_verbs {
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

}  // namespace

void sleep(Allocator& core,
           service::Session&,
           std::string_view arguments,
           service::Answer* answer) {
  SleepRequest request;
  int milliseconds = 0;
  if (!read_two(arguments, &request.device, &milliseconds)) {
    answer->status = service::ReplyStatus::BadArguments;
    return;
  }
  request.patience = static_cast<Nanoseconds>(milliseconds) * kMillisecond;
  const SleepAnswer result = Sleep(core).go(request);
  answer->text = result.text;
  if (!result.asleep) answer->status = service::ReplyStatus::Refused;
}

void wake(Allocator& core, service::Session&, std::string_view, service::Answer* answer) {
  const Bytes changed = Sleep(core).wake();
  answer->text = "awake";
  if (changed == 0) return;
  answer->status = service::ReplyStatus::Refused;
  answer->text = "awake, but " + changed_text(changed);
}

int tick(Allocator& core) {
  static std::uint64_t last = 0;  // the service's thread alone
  static Nanoseconds since = 0;
  Sleep sleep(core);
  const Nanoseconds now = core.driver().now();
  const Nanoseconds limit = core.config().sleep_after * kSecond;
  const std::uint64_t submissions = sleep.submissions();
  const bool awake = sleep.state() == SleepState::Awake;
  if (submissions != last || since == 0 || !awake) {
    last = submissions;
    since = now;
  } else if (now - since >= limit) {
    // Refused: it is asked again when as much time has passed once more.
    (void)sleep.go({.patience = 100 * kMillisecond, .only_if_idle = true});
    since = core.driver().now();
  }
  constexpr int kLook = 250;
  return kLook;
}

}  // namespace custash::sleep_verbs
