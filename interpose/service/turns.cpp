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
#include <cerrno>
#include <charconv>
#include <chrono>
#include <string>
#include <utility>
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
// A process that would not go to sleep has not worked meanwhile: it shall for a while.
constexpr Nanoseconds kLeftAlone = 10 * kSecond;
constexpr int kAnswerTime = 1000;        // milliseconds, for all processes together
constexpr int kSleepTime = 10 * 60'000;  // as long as the command waits for a sleep

// When the process last got memory by a turn, and when its slice began; 0: it has none. Order:
// none; a slice is a matter of seconds.
constinit std::atomic<Nanoseconds> had_at{0};
constinit std::atomic<Nanoseconds> slice_from{0};
// When it last asked others, or tried to have the turn. Who waits for memory in its slice is
// not idle, but each question takes up to kAnswerTime.
constinit std::atomic<Nanoseconds> tried_at{0};
// When it first wanted more after its slice; 0: not yet.
constinit std::atomic<Nanoseconds> wanted_at{0};
// For so long others go first then. They ask more often.
constexpr Nanoseconds kOthersFirst = 200 * kMillisecond;

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

// Processes that have had memory once: whoever of them does not answer may have it still.
// Processes that would not go to sleep are not asked for a while.
class Acquaintances {
 public:
  void met(const service::Identity& who) {
    const RankedLock lock(mutex_);
    if (std::find(met_.begin(), met_.end(), who) != met_.end()) return;
    if (met_.size() == kMost) met_.erase(met_.begin());
    met_.push_back(who);
  }

  [[nodiscard]] bool knows(const service::Identity& who) {
    const RankedLock lock(mutex_);
    return std::find(met_.begin(), met_.end(), who) != met_.end();
  }

  void refused(const service::Identity& who, Nanoseconds until) {
    const RankedLock lock(mutex_);
    refused_.emplace_back(who, until);
  }

  [[nodiscard]] bool refuses(const service::Identity& who, Nanoseconds now) {
    const RankedLock lock(mutex_);
    std::erase_if(refused_, [&](const auto& each) { return now >= each.second; });
    return std::any_of(
        refused_.begin(), refused_.end(), [&](const auto& each) { return each.first == who; });
  }

 private:
  static constexpr std::size_t kMost = 256;  // processes that ended are never taken out

  RankedMutex mutex_{HookRank::Turns};
  std::vector<service::Identity> met_ GUARDED_BY(mutex_);
  std::vector<std::pair<service::Identity, Nanoseconds>> refused_ GUARDED_BY(mutex_);
};

Acquaintances& others() {
  static auto* const all = new Acquaintances;
  return *all;
}

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

// Milliseconds until the process may be put to sleep.
std::uint64_t slice_left(Allocator& core) {
  const Nanoseconds from = slice_from.load(std::memory_order_relaxed);
  const Nanoseconds end = from + core.config().turns * kSecond;
  const Nanoseconds now = core.driver().now();
  const Nanoseconds tried = tried_at.load(std::memory_order_relaxed);
  const bool tries = tried != 0 && now < tried + kIdle + kAnswerTime * kMillisecond;
  if (from == 0 || now >= end || (!tries && idle_for(core) >= kIdle)) return 0;
  return (end - now) / kMillisecond + 1;
}

// -1: no device of this process, or it takes no turns.
CUdevice device_of(Allocator& core, std::string_view uuid) {
  int count = 0;
  if (core.config().turns == 0 || !core.config().control || uuid.empty() ||
      core.driver().device_get_count(&count) != CUDA_SUCCESS)
    return -1;
  for (int device = 0; device < count; ++device)
    if (neighbours::uuid_of(device) == uuid) return device;
  return -1;
}

void go_to_sleep(Allocator& core,
                 std::string_view uuid,
                 const SleepRequest& request,
                 service::Answer* answer) {
  answer->status = service::ReplyStatus::Refused;
  if (device_of(core, uuid) < 0 || slice_left(core) != 0) return;
  SleepAnswer result = Sleep(core).go(request);
  if (result.asleep) slice_from.store(0);
  if (result.asleep || result.cached != 0)
    answer->status = service::ReplyStatus::Done;
  else if (result.later)
    answer->status = service::ReplyStatus::NotNow;
  answer->text = std::move(result.text);
}

struct Found {
  std::vector<Candidate> ready;  // the idlest first
  bool later = false;
  bool unsure = false;
};

Found find(const std::string& uuid, Nanoseconds now) {
  Found found;
  tried_at.store(now);
  for (const neighbours::Heard& each :
       neighbours::ask_each("turn_look " + uuid, service::in_milliseconds(kAnswerTime))) {
    Candidate candidate{.who = each.who};
    if (!each.reply.heard || each.reply.status == service::ReplyStatus::NotNow) {
      (others().knows(each.who) ? found.later : found.unsure) = true;  // it may be ending
    } else if (each.reply.done() && read(each.reply.text, &candidate) && candidate.bytes != 0) {
      others().met(each.who);
      if (others().refuses(each.who, now))
        found.unsure = true;
      else if (candidate.left != 0)
        found.later = true;
      else
        found.ready.push_back(candidate);
    }
  }
  std::sort(found.ready.begin(), found.ready.end(), [](const Candidate& a, const Candidate& b) {
    return a.idle > b.idle;
  });
  return found;
}

// The other process may be stopped while it goes to sleep.
service::Reply ask_one(const service::Identity& who,
                       const std::string& request,
                       bool (*go_on)(void* data),
                       void* data) {
  service::Connection process(who);
  if (!process.send(request)) return {};
  for (const service::Deadline last = service::in_milliseconds(kSleepTime);;) {
    const service::Deadline look = service::in_milliseconds(kAnswerTime);
    service::Reply reply = process.receive(std::min(look, last));
    const auto now = std::chrono::steady_clock::now();
    if (reply.heard || now < look || now >= last || !go_on(data)) return reply;
  }
}

// A process of an older build sleeps as a whole.
service::Reply put_to_sleep(const service::Identity& who,
                            const std::string& uuid,
                            Bytes bytes,
                            bool (*go_on)(void* data),
                            void* data) {
  const service::Reply reply =
      ask_one(who, "turn_part " + uuid + " " + std::to_string(bytes), go_on, data);
  const bool older = reply.heard && reply.status == service::ReplyStatus::UnknownVerb;
  return older ? ask_one(who, "turn " + uuid, go_on, data) : reply;
}

Answer ask_for(
    CUdevice device, Bytes bytes, bool (*go_on)(void* data), void* data, std::string* why) {
  const std::string uuid = neighbours::uuid_of(device);
  Allocator* const core = process::core();
  if (uuid.empty() || core == nullptr) return Answer::Nobody;
  Found found = find(uuid, core->driver().now());
  for (const Candidate& each : found.ready) {
    const service::Reply reply = put_to_sleep(each.who, uuid, bytes, go_on, data);
    log(LogLevel::Info,
        "event=turn_asked device=" + std::to_string(device) +
            " pid=" + std::to_string(each.who.pid) + " bytes=" + std::to_string(bytes) +
            " answer=\"" + reply.text + "\"");
    if (reply.done()) return Answer::Given;
    if (reply.heard && reply.status == service::ReplyStatus::NotNow) {
      found.later = true;
      continue;
    }
    const Nanoseconds now = core->driver().now();
    *why = "process " + std::to_string(each.who.pid) + " did not go to sleep" +
           (reply.text.empty() ? "" : ": " + reply.text);
    others().refused(each.who, now + std::max(kLeftAlone, core->config().turns * kSecond));
    if (!go_on(data)) break;
  }
  if (why->empty() && found.later) *why = "another process keeps its memory for now";
  if (why->empty() && found.unsure) *why = "a process has not answered";
  if (found.later) return Answer::Later;
  return found.unsure || !found.ready.empty() ? Answer::Unsure : Answer::Nobody;
}

Answer ask(CUdevice device,
           Bytes bytes,
           bool (*go_on)(void* data),
           void* data,
           std::string* why) noexcept {
  try {
    return ask_for(device, bytes, go_on, data, why);
  } catch (...) {  // no memory for the question
    return Answer::Later;
  }
}

bool all_keep(CUdevice device) noexcept {
  try {
    const std::string uuid = neighbours::uuid_of(device);
    const Allocator* const core = process::core();
    if (uuid.empty() || core == nullptr) return false;
    const Found found = find(uuid, core->driver().now());
    return found.later && found.ready.empty();
  } catch (...) {  // no memory for the question
    return false;
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
  // The place in the list, or as TurnCalls::begin says.
  int begin(const std::string& name) {
    const RankedLock lock(mutex_);
    const auto same = [&](const Mine& each) { return each.users != 0 && each.name == name; };
    const auto empty = [](const Mine& each) { return each.users == 0; };
    auto found = std::find_if(list_.begin(), list_.end(), same);
    if (found == list_.end()) {
      const int fd = bound_to(name);
      if (fd < 0) return fd;
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
    descriptors().close_own(mine.fd);
  }

 private:
  // The turn of a device is a name that one process alone can have, and that goes with it.
  // Other users could take it, too: theirs does not count.
  static int bound_to(const std::string& name) {
    const service::AbstractAddress address(name);
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return TurnCalls::kNoTurn;
    if (bind(fd, address.get(), address.size()) == 0 && listen(fd, 128) == 0)
      return descriptors().keep(fd);
    int result = TurnCalls::kNoTurn;
    if (errno == EADDRINUSE) {
      const bool reached = connect(fd, address.get(), address.size()) == 0;
      const bool just_made = !reached && (errno == ECONNREFUSED || errno == EAGAIN);
      if (just_made || (reached && service::is_own_user(fd))) result = TurnCalls::kTaken;
    }
    close(fd);
    return result;
  }

  RankedMutex mutex_{HookRank::Turns};
  std::vector<Mine> list_ GUARDED_BY(mutex_);
};

MyTurns& mine() {
  static auto* const turns = new MyTurns;
  return *turns;
}

// Whether another process shall have the turn first: this one's slice is just over.
bool others_first() {
  const Allocator* const core = process::core();
  if (core == nullptr) return false;
  const Nanoseconds from = slice_from.load();
  const Nanoseconds now = core->driver().now();
  if (from == 0) return false;
  if (now < from + core->config().turns * kSecond) return false;
  Nanoseconds wanted = 0;
  if (wanted_at.compare_exchange_strong(wanted, now) || now < wanted + kOthersFirst)
    return true;
  slice_from.store(0);
  return false;
}

int begin(CUdevice device) noexcept {
  try {
    if (others_first()) return TurnCalls::kTaken;
    return mine().begin("custash-turn/" + std::to_string(geteuid()) + "/" +
                        neighbours::uuid_of(device));
  } catch (...) {  // no memory for the name
    return TurnCalls::kNoTurn;
  }
}

void end(int turn) noexcept {
  mine().end(turn);
}

void had() noexcept {
  const Allocator* const core = process::core();
  if (core == nullptr) return;
  const Nanoseconds now = core->driver().now();
  had_at.store(now);
  Nanoseconds none = 0;
  if (slice_from.compare_exchange_strong(none, now)) wanted_at.store(0);
}

}  // namespace

TurnCalls calls() {
  return {ask, all_keep, begin, end, had};
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
  const CUdevice device = device_of(core, arguments);
  if (device < 0) {
    answer->status = service::ReplyStatus::Refused;
    return;
  }
  Sleep sleep(core);
  const SleepState state = sleep.state();
  const bool going = state == SleepState::GoingToSleep;
  const Bytes bytes = going ? 1 : sleep.could_sleep(device);
  const bool busy = going || state == SleepState::Waking;  // until it has the turn, or not
  answer->text = std::to_string(bytes) + " " + std::to_string(idle_for(core) / kMillisecond) +
                 " " + std::to_string(busy ? 1 : slice_left(core));
}

void sleep(Allocator& core,
           service::Session&,
           std::string_view arguments,
           service::Answer* answer) {
  go_to_sleep(core, arguments, {.patience = kSecond}, answer);
}

void sleep_in_part(Allocator& core,
                   service::Session&,
                   std::string_view arguments,
                   service::Answer* answer) {
  const std::string_view uuid = arguments.substr(0, arguments.find(' '));
  const char* const end = arguments.data() + arguments.size();
  SleepRequest request{.device = device_of(core, uuid), .patience = kSecond};
  const auto read =
      std::from_chars(std::min(arguments.data() + uuid.size() + 1, end), end, request.bytes);
  if (read.ec != std::errc() || read.ptr != end || request.bytes == 0) {
    answer->status = service::ReplyStatus::BadArguments;
    return;
  }
  go_to_sleep(core, uuid, request, answer);
}

}  // namespace custash::turns
