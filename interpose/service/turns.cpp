// SPDX-License-Identifier: MIT
#include "interpose/service/turns.hpp"

#include "allocator/base/log.hpp"
#include "allocator/sleep.hpp"
#include "interpose/process/descriptors.hpp"
#include "interpose/process/process.hpp"
#include "interpose/process/ranked_mutex.hpp"
#include "interpose/service/neighbours.hpp"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <string>
#include <vector>

#include <sys/socket.h>
#include <unistd.h>

namespace custash::turns {
namespace {

using Answer = TurnCalls::Answer;

constexpr Nanoseconds kMillisecond = 1'000'000;
constexpr Nanoseconds kSecond = 1'000'000'000;
// Who has submitted nothing for so long needs no slice.
constexpr Nanoseconds kIdle = kSecond;
constexpr int kAnswerTime = 1000;        // milliseconds, for all processes together
constexpr int kSleepTime = 10 * 60'000;  // as long as the command waits for a sleep

// When the process last got memory by a turn. Order: none; a slice is a matter of seconds.
constinit std::atomic<Nanoseconds> had_at{0};

// When the process was first seen idle. For the service's thread alone.
struct Seen {
  std::uint64_t submissions = 0;
  Nanoseconds since = 0;
};

constinit Seen seen{};

// A call that had to wait for its turn counts as a submission only once it is over.
Nanoseconds idle_for(Allocator& core) {
  note(core);
  const Nanoseconds begin = std::max(seen.since, had_at.load(std::memory_order_relaxed));
  return core.driver().now() - begin;
}

// What another process says of itself.
struct Candidate {
  service::Identity who;
  Bytes bytes = 0;
  std::uint64_t idle = 0;
  std::uint64_t left = 0;
};

bool read(std::string_view text, Candidate* out) {
  const char* at = text.data();
  const char* const end = at + text.size();
  for (std::uint64_t* value : {&out->bytes, &out->idle, &out->left}) {
    while (at != end && *at == ' ')
      ++at;
    const auto read = std::from_chars(at, end, *value);
    if (read.ec != std::errc()) return false;
    at = read.ptr;
  }
  return at == end;
}

// 0 where nothing of the process could go to sleep on that device.
Bytes awake_bytes(Allocator& core, CUdevice device) {
  constexpr auto kAll = static_cast<std::size_t>(StatPool::All);
  const auto held = static_cast<Bytes>(core.stats(device).reserved_bytes[kAll].current);
  return held - std::min(held, Sleep(core).asleep_bytes(device));
}

// Milliseconds until the process may be put to sleep.
std::uint64_t slice_left(Allocator& core) {
  constexpr std::uint64_t kBusy = 20;  // it is on its way to sleep, or back
  if (Sleep(core).state() != SleepState::Awake) return kBusy;
  const Nanoseconds had = had_at.load(std::memory_order_relaxed);
  const Nanoseconds end = had + core.config().turns * kSecond;
  const Nanoseconds now = core.driver().now();
  if (had == 0 || now >= end || idle_for(core) >= kIdle) return 0;
  return (end - now) / kMillisecond + 1;
}

CUdevice device_of(Allocator& core, std::string_view uuid) {
  int count = 0;
  if (core.driver().device_get_count(&count) != CUDA_SUCCESS) count = 0;
  for (int device = 0; device < count; ++device)
    if (neighbours::uuid_of(device) == uuid) return device;
  return -1;
}

Answer ask_for(CUdevice device) {
  const std::string uuid = neighbours::uuid_of(device);
  if (uuid.empty()) return Answer::Nobody;
  std::vector<Candidate> ready;
  bool later = false;
  for (const neighbours::Heard& each :
       neighbours::ask_each("turn_look " + uuid, service::in_milliseconds(kAnswerTime))) {
    Candidate candidate{.who = each.who};
    // Who does not answer may be going to sleep just now.
    if (!each.reply.heard) later = true;
    if (!each.reply.done() || !read(each.reply.text, &candidate) || candidate.bytes == 0)
      continue;
    if (candidate.left != 0)
      later = true;
    else
      ready.push_back(candidate);
  }
  if (ready.empty()) return later ? Answer::Later : Answer::Nobody;
  const Candidate& idlest =
      *std::max_element(ready.begin(), ready.end(), [](const Candidate& a, const Candidate& b) {
        return a.idle < b.idle;
      });
  service::Connection other(idlest.who);
  const service::Reply reply = other.ask("turn " + uuid, service::in_milliseconds(kSleepTime));
  log(LogLevel::Info,
      "event=turn_asked device=" + std::to_string(device) +
          " pid=" + std::to_string(idlest.who.pid) + " answer=\"" + reply.text + "\"");
  return reply.done() ? Answer::Given : Answer::Later;
}

Answer ask(CUdevice device) noexcept {
  try {
    return ask_for(device);
  } catch (...) {  // no memory for the question
    return Answer::Later;
  }
}

// The turns that this process has. All its threads share one: who allocates with it may have to
// wake the process.
struct Mine {
  std::string name;
  int fd = -1;
  int users = 0;  // 0: the place is empty
};

class MyTurns {
 public:
  // The place in the list; -1: another process has the turn.
  int begin(const std::string& name) {
    const RankedLock lock(mutex_);
    const auto same = [&](const Mine& each) { return each.users != 0 && each.name == name; };
    const auto empty = [](const Mine& each) { return each.users == 0; };
    auto found = std::find_if(list_.begin(), list_.end(), same);
    if (found == list_.end()) {
      const int fd = bound_to(name);
      if (fd < 0) return -1;
      found = std::find_if(list_.begin(), list_.end(), empty);
      if (found == list_.end()) found = list_.emplace(list_.end());
      found->name = name;
      found->fd = fd;
    }
    ++found->users;
    return static_cast<int>(found - list_.begin());
  }

  void end(int place) {
    const RankedLock lock(mutex_);
    Mine& mine = list_[static_cast<std::size_t>(place)];
    if (--mine.users != 0) return;
    descriptors().drop(mine.fd);
    close(mine.fd);
  }

 private:
  // The turn of a device is a name that one process alone can have, and that goes with it.
  static int bound_to(const std::string& name) {
    const service::AbstractAddress address(name);
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return -1;
    if (bind(fd, address.get(), address.size()) == 0) return descriptors().keep(fd);
    close(fd);
    return -1;
  }

  RankedMutex mutex_{HookRank::Turns};
  std::vector<Mine> list_ GUARDED_BY(mutex_);
};

MyTurns& mine() {
  static auto* const turns = new MyTurns;
  return *turns;
}

int begin(CUdevice device) noexcept {
  try {
    return mine().begin("custash-turn/" + std::to_string(geteuid()) + "/" +
                        neighbours::uuid_of(device));
  } catch (...) {  // no memory for the name
    return -1;
  }
}

void end(int turn) noexcept {
  mine().end(turn);
}

void had() noexcept {
  if (Allocator* const core = process::core()) had_at.store(core->driver().now());
}

}  // namespace

TurnCalls calls() {
  return {ask, begin, end, had};
}

void note(Allocator& core) {
  const std::uint64_t submissions = Sleep(core).submissions();
  if (submissions == seen.submissions && seen.since != 0) return;
  seen = {submissions, core.driver().now()};
}

void look(Allocator& core,
          service::Session&,
          std::string_view arguments,
          service::Answer* answer) {
  const CUdevice device = core.config().turns == 0 ? -1 : device_of(core, arguments);
  if (device < 0) {
    answer->status = service::ReplyStatus::Refused;
    return;
  }
  answer->text = std::to_string(awake_bytes(core, device)) + " " +
                 std::to_string(idle_for(core) / kMillisecond) + " " +
                 std::to_string(slice_left(core));
}

void sleep(Allocator& core,
           service::Session&,
           std::string_view arguments,
           service::Answer* answer) {
  const CUdevice device = core.config().turns == 0 ? -1 : device_of(core, arguments);
  answer->status = service::ReplyStatus::Refused;
  if (device < 0 || slice_left(core) != 0) return;
  SleepAnswer result =
      Sleep(core).go({.device = device, .patience = core.config().patience * kSecond});
  if (result.asleep) answer->status = service::ReplyStatus::Done;
  answer->text = std::move(result.text);
}

}  // namespace custash::turns
