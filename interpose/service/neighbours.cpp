// SPDX-License-Identifier: MIT
#include "interpose/service/neighbours.hpp"

#include "allocator/base/log.hpp"
#include "allocator/peer_processes.hpp"
#include "interpose/process/live_page.hpp"
#include "interpose/process/ranked_mutex.hpp"
#include "interpose/real/real_driver.hpp"
#include "interpose/service/service_client.hpp"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

namespace custash::neighbours {
namespace {

// The time for all neighbours together. The alternative is to fail for memory, so a neighbour
// on a busy machine must get its turn.
constexpr int kPatience = 1000;  // milliseconds
constexpr std::chrono::seconds kLeftAlone{10};

using Clock = std::chrono::steady_clock;

// Processes that did not answer, and until when they are not asked again. Other users may take
// thousands of names, too.
class DeafList {
 public:
  bool has(const service::Identity& who) {
    const RankedLock lock(mutex_);
    return list_.contains({who.pid, who.nonce});
  }

  void add(const service::Identity& who) {
    const RankedLock lock(mutex_);
    list_[{who.pid, who.nonce}] = Clock::now() + kLeftAlone;
  }

  void forget() {
    const RankedLock lock(mutex_);
    const Clock::time_point now = Clock::now();
    std::erase_if(list_, [&](const auto& each) { return now >= each.second; });
  }

 private:
  RankedMutex mutex_{HookRank::Neighbours};
  std::map<std::pair<pid_t, std::uint64_t>, Clock::time_point> list_ GUARDED_BY(mutex_);
};

// The bytes that others would release, by device.
class Published {
 public:
  Bytes of(const std::string& uuid) {
    const Clock::time_point now = Clock::now();
    {
      const RankedLock lock(mutex_);
      if (now < until_) return spare_[uuid];
      until_ = now + std::chrono::seconds(1);  // other threads use the old figures meanwhile
    }
    std::map<std::string, Bytes> sums = read();
    const RankedLock lock(mutex_);
    spare_.swap(sums);
    return spare_[uuid];
  }

 private:
  static std::map<std::string, Bytes> read() {
    // A process that is stopped, or killed in another container, updates its page no more.
    constexpr std::int64_t kFresh = 30'000'000'000;
    const service::Identity self = service::identity();
    const std::int64_t now = live::monotonic_now();
    std::map<std::string, Bytes> sums;
    for (const live::Page& page : live::read_all(geteuid())) {
      if ((page.pid == self.pid && page.nonce == self.nonce) || now - page.updated > kFresh)
        continue;
      for (std::int64_t i = 0; i < page.device_count; ++i) {
        const live::DevicePart& part = page.devices[i];
        sums[part.uuid] += static_cast<Bytes>(std::max<std::int64_t>(part.spare_bytes, 0));
      }
    }
    return sums;
  }

  RankedMutex mutex_{HookRank::Neighbours};
  Clock::time_point until_ GUARDED_BY(mutex_);
  std::map<std::string, Bytes> spare_ GUARDED_BY(mutex_);
};

bool read_bytes(std::string_view text, Bytes* out) {
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, *out);
  return read.ec == std::errc() && read.ptr == end;
}

DeafList& deaf_list() {
  static auto* const list = new DeafList;
  return *list;
}

Bytes ask_all(CUdevice device, Bytes bytes) {
  const std::string uuid = uuid_of(device);
  if (uuid.empty()) return 0;
  const std::string request = "give " + uuid + " " + std::to_string(bytes);
  const service::Deadline until = service::in_milliseconds(kPatience);
  deaf_list().forget();
  const std::vector<Heard> answers =
      ask_each(request, until, [](const service::Identity& who) { return !is_deaf(who); });
  Bytes given = 0;
  int heard = 0;
  for (const Heard& each : answers) {
    Bytes part = 0;
    if (each.reply.heard)
      ++heard;
    else
      deaf_list().add(each.who);
    if (each.reply.done() && read_bytes(each.reply.text, &part)) given += part;
  }
  static std::atomic<Clock::rep> next_line{0};  // order: none; a line more does no harm
  const Clock::time_point now = Clock::now();
  if (given == 0 && now.time_since_epoch().count() < next_line.load()) return 0;
  next_line.store((now + kLeftAlone).time_since_epoch().count());
  log(LogLevel::Info,
      "event=neighbours_asked device=" + std::to_string(device) +
          " bytes=" + std::to_string(bytes) + " neighbours=" + std::to_string(heard) +
          " given=" + std::to_string(given));
  return given;
}

}  // namespace

std::string uuid_of(CUdevice device) {
  using GetUuid = CUresult(CUuuid*, CUdevice);
  static auto* const get = [] {
    void* const newer = real::symbol("cuDeviceGetUuid_v2");
    return reinterpret_cast<GetUuid*>(newer != nullptr ? newer
                                                       : real::symbol("cuDeviceGetUuid"));
  }();
  CUuuid uuid{};
  if (get == nullptr || get(&uuid, device) != CUDA_SUCCESS) return {};
  std::string text;
  for (const char each : uuid.bytes) {
    constexpr const char* kDigits = "0123456789abcdef";
    text += kDigits[static_cast<unsigned char>(each) >> 4U];
    text += kDigits[static_cast<unsigned char>(each) & 15U];
  }
  return text;
}

std::vector<Heard> ask_each(const std::string& request,
                            service::Deadline until,
                            bool (*wanted)(const service::Identity& who)) {
  struct Asked {
    service::Identity who;
    service::Connection link;
  };

  std::vector<Heard> answers;
  std::vector<Asked> asked;
  for (const service::Identity& who : service::find_all()) {
    if (who == service::identity() || !wanted(who)) continue;
    Asked each{who, service::Connection(who)};
    if (each.link.send(request))
      asked.push_back(std::move(each));
    else
      answers.push_back({who, {}});
    if (std::chrono::steady_clock::now() >= until) break;
  }
  for (Asked& each : asked)
    answers.push_back({each.who, each.link.receive(until)});
  return answers;
}

bool is_deaf(const service::Identity& who) {
  return deaf_list().has(who);
}

Bytes ask(CUdevice device, Bytes bytes) noexcept {
  try {
    return ask_all(device, bytes);
  } catch (...) {  // no memory for the question
    return 0;
  }
}

Bytes spare(const Allocator& core, CUdevice device) noexcept {
  if (!core.config().neighbours) return 0;
  try {
    static auto* const published = new Published;
    return published->of(uuid_of(device));
  } catch (...) {  // no memory for the pages
    return 0;
  }
}

void give(Allocator& core,
          service::Session&,
          std::string_view arguments,
          service::Answer* answer) {
  const std::size_t blank = arguments.find(' ');
  Bytes bytes = 0;
  if (blank == std::string_view::npos || !read_bytes(arguments.substr(blank + 1), &bytes)) {
    answer->status = service::ReplyStatus::BadArguments;
    return;
  }
  int count = 0;
  if (!core.config().neighbours || core.driver().device_get_count(&count) != CUDA_SUCCESS)
    count = 0;
  Bytes given = 0;
  for (int device = 0; device < count; ++device)
    if (uuid_of(device) == arguments.substr(0, blank))
      given = PeerProcesses(core).give_back(device, bytes);
  answer->text = std::to_string(given);
}

}  // namespace custash::neighbours
