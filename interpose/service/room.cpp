// SPDX-License-Identifier: MIT
// Proved: tests/models/room.pml.
#include "interpose/service/room.hpp"

#include "allocator/base/log.hpp"
#include "interpose/process/live_page.hpp"
#include "interpose/process/process.hpp"
#include "interpose/process/sleep_library.hpp"
#include "interpose/service/neighbours.hpp"
#include "interpose/service/service_client.hpp"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <unistd.h>

namespace custash::room {
namespace {

constexpr Nanoseconds kSecond = 1'000'000'000;
constexpr Nanoseconds kMillisecond = 1'000'000;

// ---- Who lacks memory.

struct Candidate {
  std::int64_t idle_since = 0;
  service::Identity who;
  Bytes bytes = 0;
};

// Those that make room, the one that has idled longest first, and what each could release.
std::vector<Candidate> candidates(const std::string& uuid) {
  std::vector<Candidate> found;
  for (const live::Page& page : live::read_all(geteuid())) {
    const service::Identity who{static_cast<pid_t>(page.pid), page.nonce};
    if (page.idle_since == 0 || who == service::identity() || neighbours::is_deaf(who))
      continue;
    const auto state = static_cast<SleepState>(page.sleep);
    for (std::int64_t i = 0; i < page.device_count; ++i) {
      const live::DevicePart& part = page.devices[i];
      if (uuid != part.uuid) continue;
      const std::int64_t bytes = part.reserved_bytes + part.by_driver_bytes;
      found.push_back(
          {page.idle_since, who, state == SleepState::Asleep ? 0 : static_cast<Bytes>(bytes)});
    }
  }
  std::sort(found.begin(), found.end(), [](const Candidate& a, const Candidate& b) {
    return a.idle_since < b.idle_since;
  });
  return found;
}

// Done: it sleeps. NotNow: it works. Else it does not go to sleep.
service::ReplyStatus answer_of(const Driver& driver,
                               const service::Identity& who,
                               const std::string& request,
                               Nanoseconds until) {
  constexpr int kAnswer = 1000;
  constexpr Nanoseconds kBetween = 20 * kMillisecond;
  for (;;) {
    const service::Reply reply =
        service::Connection(who).ask(request, service::in_milliseconds(kAnswer));
    if (!reply.heard) return service::ReplyStatus::Refused;
    if (reply.status != service::ReplyStatus::Later) return reply.status;
    if (driver.now() >= until) return service::ReplyStatus::NotNow;
    driver.rest(kBetween);
  }
}

// Waits for a process that makes room; not for ever, as it may be stopped.
void wait_for_turn(const Driver& driver, CUdevice device, std::shared_ptr<void>* turn) {
  constexpr Nanoseconds kBetween = 20 * kMillisecond;
  const Nanoseconds until = driver.now() + kPassOver;
  while (*turn == nullptr && driver.now() < until) {
    *turn = take_turn({&device, 1});
    if (*turn == nullptr) driver.rest(kBetween);
  }
}

Room ask_each(Allocator& core,
              CUdevice device,
              Bytes bytes,
              Nanoseconds until,
              std::shared_ptr<void>* turn) {
  using service::ReplyStatus;
  const Driver& driver = core.driver();
  const std::string uuid = neighbours::uuid_of(device);
  if (candidates(uuid).empty()) return Room::Nobody;
  wait_for_turn(driver, device, turn);
  const std::vector<Candidate> others = candidates(uuid);
  std::optional<Bytes> free = driver.free_bytes();
  Bytes theirs = 0;
  for (const Candidate& each : others)
    theirs += each.bytes;
  const std::string request = "yield " + std::to_string(core.config().priority);
  for (const Candidate& each : others) {
    if (!free) return Room::Nobody;
    if (*free >= bytes) return Room::Made;
    if (*free + theirs < bytes) return Room::Little;  // they would sleep in vain
    if (each.bytes == 0) continue;
    const ReplyStatus status = answer_of(driver, each.who, request, until);
    if (status == ReplyStatus::Done)
      log(LogLevel::Info,
          "event=neighbour_sleeps device=" + std::to_string(device) +
              " pid=" + std::to_string(each.who.pid) + " bytes=" + std::to_string(bytes));
    if (status != ReplyStatus::NotNow) theirs -= each.bytes;
    free = driver.free_bytes();
  }
  if (!free) return Room::Nobody;
  if (*free >= bytes) return Room::Made;
  return *free + theirs < bytes ? Room::Little : Room::Later;
}

// ---- Who goes to sleep.

// The service's thread alone.
constinit std::uint64_t submissions = 0;
constinit Nanoseconds last_work = 0;

constinit std::atomic<bool> under_way{false};
constinit std::atomic<bool> only_if_idle{false};  // written before the thread begins
constinit std::atomic<Nanoseconds> left_alone{0};

void* go_to_sleep(void* of) {
  Allocator& core = *static_cast<Allocator*>(of);
  constexpr Nanoseconds kLeftAlone = 10 * kSecond;
  const bool idle = only_if_idle.load();
  const SleepRequest request{.patience = idle ? kSecond / 10 : 10 * kSecond,
                             .gives_way = service::paused,
                             .only_if_idle = idle};
  bool leave_alone = true;
  try {
    const SleepAnswer answer = sleep_library()->sleep(core, request);
    leave_alone = !answer.asleep && !answer.disturbed;
  } catch (...) {  // no host memory
  }
  if (leave_alone) left_alone.store(core.driver().now() + kLeftAlone);
  under_way.store(false);
  return nullptr;
}

service::ReplyStatus answer_to(Allocator& core, std::uint32_t priority) {
  using service::ReplyStatus;
  const Config& config = core.config();
  if (!config.neighbours || config.yield_after == 0 || sleep_library() == nullptr)
    return ReplyStatus::Refused;
  const SleepState state = Sleep(core).state();
  if (under_way.load() || state == SleepState::GoingToSleep) return ReplyStatus::Later;
  if (state == SleepState::Asleep) return ReplyStatus::Done;
  if (state == SleepState::Waking) return ReplyStatus::NotNow;
  (void)tick(core);
  const Nanoseconds now = core.driver().now();
  const bool idle = now - last_work >= config.yield_after * kSecond;
  if (now < left_alone.load()) return ReplyStatus::Refused;
  if (!idle && priority <= config.priority) return ReplyStatus::NotNow;
  only_if_idle.store(idle);
  under_way.store(true);
  if (service::start_thread(go_to_sleep, &core)) return ReplyStatus::Later;
  under_way.store(false);
  return ReplyStatus::NotNow;
}

}  // namespace

Room ask(CUdevice device,
         Bytes bytes,
         Nanoseconds patience,
         std::shared_ptr<void>* turn) noexcept {
  const bool given = neighbours::ask(device, bytes) != 0;
  const Room room = ask_to_sleep(device, bytes, patience, turn);
  return given ? Room::Made : room;
}

Room ask_to_sleep(CUdevice device,
                  Bytes bytes,
                  Nanoseconds patience,
                  std::shared_ptr<void>* turn) noexcept {
  Allocator* const core = process::running();
  if (core == nullptr || patience == 0) return Room::Nobody;
  try {
    return ask_each(*core, device, bytes, core->driver().now() + patience, turn);
  } catch (...) {  // no memory for the question
    return Room::Nobody;
  }
}

void yield(Allocator& core,
           service::Session&,
           std::string_view arguments,
           service::Answer* answer) {
  std::uint32_t priority = 0;
  const char* const end = arguments.data() + arguments.size();
  const auto read = std::from_chars(arguments.data(), end, priority);
  const bool good = read.ec == std::errc() && read.ptr == end;
  answer->status = good ? answer_to(core, priority) : service::ReplyStatus::BadArguments;
}

std::int64_t idle_since() noexcept {
  return sleep_library() == nullptr ? 0 : static_cast<std::int64_t>(last_work);
}

int tick(Allocator& core) {
  constexpr int kLook = 250;
  const std::uint64_t now = Sleep(core).submissions();
  if (last_work == 0 || now != submissions) last_work = core.driver().now();
  submissions = now;
  return kLook;
}

}  // namespace custash::room
