// SPDX-License-Identifier: MIT
#include "interpose/service/turns.hpp"

#include "allocator/base/log.hpp"
#include "allocator/sleep.hpp"
#include "interpose/process/process.hpp"
#include "interpose/process/ranked_mutex.hpp"
#include "interpose/service/my_turns.hpp"
#include "interpose/service/neighbours.hpp"
#include "interpose/service/slice.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

namespace custash::turns {
namespace {

using Answer = TurnCalls::Answer;

// A process that would not go to sleep has not worked meanwhile: it shall for a while.
constexpr Nanoseconds kLeftAlone = 10 * kSecond;
constexpr int kAnswerMs = kAnswerTime / kMillisecond;  // for all processes together
constexpr int kSleepTime = 10 * 60'000;  // as long as the command waits for a sleep

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
  if (device_of(core, uuid) < 0 || slice().left(core) != 0) return;
  SleepAnswer result = Sleep(core).go(request);
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
  slice().asks(now);
  for (const neighbours::Heard& each :
       neighbours::ask_each("turn_look " + uuid, service::in_milliseconds(kAnswerMs))) {
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
    const service::Deadline look = service::in_milliseconds(kAnswerMs);
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

int begin(CUdevice device) noexcept {
  try {
    Allocator* const core = process::core();
    if (core != nullptr && slice().others_first(*core)) return TurnCalls::kTaken;
    return my_turns().begin("custash-turn/" + std::to_string(geteuid()) + "/" +
                            neighbours::uuid_of(device));
  } catch (...) {  // no memory for the name
    return TurnCalls::kNoTurn;
  }
}

void end(int turn) noexcept {
  my_turns().end(turn);
}

void had() noexcept {
  if (const Allocator* const core = process::core()) slice().had(core->driver().now());
}

}  // namespace

TurnCalls calls() {
  return {ask, all_keep, begin, end, had};
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
  answer->text = std::to_string(bytes) + " " +
                 std::to_string(slice().idle_for(core) / kMillisecond) + " " +
                 std::to_string(busy ? 1 : slice().left(core));
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
