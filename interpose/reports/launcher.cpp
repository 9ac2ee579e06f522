// SPDX-License-Identifier: MIT
#include "interpose/reports/launcher.hpp"

#include "interpose/counters/device_stats.hpp"
#include "interpose/counters/driver_calls.hpp"
#include "interpose/counters/passed.hpp"
#include "interpose/history/ledger_book.hpp"
#include "interpose/history/snapshot.hpp"
#include "interpose/process/live_page.hpp"
#include "interpose/process/output_text.hpp"
#include "interpose/process/process.hpp"
#include "interpose/process/quietly.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <string_view>

#include <time.h>
#include <unistd.h>

namespace custash::launcher {
namespace {

using ledger::Book;
using ledger::Counters;
using ledger::kCounted;

char reports[8] = {};                   // letters; none: there is no launcher
constexpr const char* kCompares = "c";  // it reads counters alone
constexpr const char* kRenders = "r";   // it only makes the other forms of snapshots
long long launcher = 0;
unsigned long long launcher_started = 0;
char folder[200] = {};
char path[256] = {};  // of this process's ledger; empty: it has none
int devices = 0;
constinit std::atomic<bool> taken{false};

constinit std::atomic<bool> copying{false};
// Order: none. They decide when to copy, and `copying` lets one thread do it.
constinit std::atomic<std::uint64_t> events{0};
constinit std::atomic<std::uint64_t> next_copy{0};    // at this event
constinit std::atomic<std::int64_t> next_copy_at{0};  // or at this time

std::int64_t coarse_now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

// The path with that ending.
std::array<char, sizeof path + 16> with(const char* ending) {
  std::array<char, sizeof path + 16> out{};
  (void)std::snprintf(out.data(), out.size(), "%s%s", path, ending);
  return out;
}

// The ledger of a program before an exec, or of an earlier process with the same number.
bool is_taken() {
  for (const char* const ending : {"", ledger::kDone, ledger::kOwn})
    if (access(with(ending).data(), F_OK) == 0) return true;
  return false;
}

bool make_ledger() {
  constexpr int kMostPrograms = 1000;
  for (int n = 0; n < kMostPrograms; ++n) {
    (void)std::snprintf(path, sizeof path, "%s/%d-%d", folder, getpid(), n);
    if (!is_taken()) return ledger::make_book(path).memory.shared();
  }
  return false;
}

void note_counts(const ledger::Header& head, Counters* out) {
  for (std::size_t i = 0; i < kCounted; ++i) {
    out->allocated[i] = head.allocated[i];
    out->freed[i] = head.freed[i];
  }
}

// Two rows in turn, so that one of them is always complete. Order: released after the row.
void put_down(const Counters& counters) {
  Book& book = *ledger::book();
  const RankedLock guard(book.mutex);
  if (book.counters.size() < 2) return;
  const std::uint64_t next = 1 - book.head->counters_which;
  book.counters[next] = counters;
  std::atomic_ref(book.head->counters_which).store(next, std::memory_order_release);
}

void copy_counters(Allocator& core) {
  Counters counters{};
  note_counts(*ledger::book()->head, &counters);  // before: what comes meanwhile counts twice
  counters.devices = static_cast<std::uint64_t>(devices);
  for (int i = 0; i < devices; ++i)
    counters.device[i] = device_stats::counters(core, i);
  counters.host = process::pinned().stats();
  counters.passed = passed::table().read();
  put_down(counters);
}

enum class When { Now, Sometimes };

// Sometimes: at each of the first calls, then ever more rarely, but at least 100 times a
// second.
void copy_counters(When when) noexcept {
  constexpr std::uint64_t kShare = 64;
  constexpr std::int64_t kPause = 10'000'000;
  const std::uint64_t number = events.fetch_add(1, std::memory_order_relaxed) + 1;
  if (when == When::Sometimes && number < next_copy.load(std::memory_order_relaxed) &&
      coarse_now() < next_copy_at.load(std::memory_order_relaxed))
    return;
  Allocator* const core = process::running();
  if (core == nullptr || copying.exchange(true)) return;
  try {
    copy_counters(*core);
  } catch (...) {
  }
  next_copy.store(number + std::max<std::uint64_t>(1, number / kShare));
  next_copy_at.store(coarse_now() + kPause);
  copying.store(false);
}

void note_driver_calls(Counters* out) {
  const auto add = [](const driver_calls::Timing& timing, ledger::CallTime* to) {
    to->count += timing.count;
    to->time += timing.total_ns;
  };
  for (const driver_calls::Timing& timing : driver_calls::read()) {
    const std::string_view name = timing.name;
    if (driver_calls::is_slow(name)) add(timing, &out->driver_calls);
    if (name == "cuMemAlloc_v2") add(timing, &out->mem_alloc);
    if (name == "cuMemFree_v2") add(timing, &out->mem_free);
  }
}

std::size_t current_device() {
  const Allocator* const core = process::running();
  CUdevice device = 0;
  if (core == nullptr || core->driver().ctx_get_device(&device) != CUDA_SUCCESS) return 0;
  return std::clamp<std::size_t>(static_cast<std::size_t>(device), 0, kCounted - 1);
}

void count(std::uint64_t (ledger::Header::*counts)[kCounted],
           observe::MemoryKind memory) noexcept {
  if (memory == observe::MemoryKind::Device)
    std::atomic_ref((ledger::book()->head->*counts)[current_device()])
        .fetch_add(1, std::memory_order_relaxed);
}

void put_down_held(Book& book, const Inventory& held, int device) {
  for (const HeldSegment& segment : held) {
    book.pages.append(segment.pages.data(), segment.pages.size());
    book.pieces.append(segment.pieces.data(), segment.pieces.size());
    book.held.push_back({segment.base,
                         segment.size,
                         reinterpret_cast<std::uint64_t>(segment.stream),
                         static_cast<std::uint32_t>(device),
                         static_cast<std::uint16_t>(segment.pool),
                         static_cast<std::uint16_t>(segment.mapped ? 1 : 0),
                         book.pages.size(),
                         book.pieces.size()});
  }
}

// False where the launcher no longer waits for this process.
bool give(const char* ending) {
  return rename(path, with(ending).data()) == 0;
}

bool launcher_waits() {
  // EPERM: it lives, and this process has changed its user.
  return (kill(static_cast<pid_t>(launcher), 0) == 0 || errno == EPERM) &&
         live::start_of(static_cast<pid_t>(launcher)) == launcher_started;
}

// No copy of the counters here, because the call has yet to free.
observe::Token before(const observe::Call& call) {
  if (call.frees()) count(&ledger::Header::freed, call.memory);
  return 0;
}

void after(const observe::Call& call, CUresult result, observe::Token) {
  if (call.allocated(result)) {
    count(&ledger::Header::allocated, call.memory);
    copy_counters(When::Sometimes);
  }
  if (!call.ran_out(result)) return;
  copy_counters(When::Now);
  const std::string_view why = process::last_refusal();
  if (why.starts_with("out of memory"))
    quietly([&] { note(&ledger::Header::oom_reason, std::string(why)); });
}

constexpr observe::Observer kObserver{.before = before, .after = after};

void read(const char* text) {
  if (text == nullptr || std::sscanf(text,
                                     "%7[hlscfr] %lld %llu %199[^\n]",
                                     reports,
                                     &launcher,
                                     &launcher_started,
                                     folder) != 4)
    reports[0] = '\0';
}

}  // namespace

void begin(Allocator& core, const char* launcher_text) noexcept {
  read(launcher_text);
  if (reports[0] == '\0' || std::strcmp(reports, kRenders) == 0) return;
  try {
    if (!launcher_waits()) return;
    if (!make_ledger()) {
      (void)give(ledger::kOwn);
      path[0] = '\0';
      return;
    }
    int count = 0;
    if (core.driver().device_get_count(&count) == CUDA_SUCCESS)
      devices = std::min(count, static_cast<int>(kCounted));
    Book& book = *ledger::book();
    const RankedLock guard(book.mutex);
    book.head->program = book.add_text(snapshot::command_line());
    const std::vector<Counters> two(2);
    book.counters.append(two.data(), two.size());
  } catch (...) {
    return;
  }
  if (std::strcmp(reports, kCompares) != 0)
    observe::begin(observe::Watcher::Counters, &kObserver);
}

void note(ledger::TextPlace ledger::Header::*which, const std::string& text) noexcept {
  if (path[0] == '\0') return;
  quietly([&] {
    Book& book = *ledger::book();
    const RankedLock guard(book.mutex);
    if ((book.head->*which).size == 0) book.head->*which = book.add_text(text);
  });
}

std::string oom_path() {
  if (path[0] == '\0' || std::strchr(reports, static_cast<char>(Report::History)) == nullptr)
    return "";
  const std::string ledger = path;
  const std::size_t name = ledger.rfind('/') + 1;
  return ledger.substr(0, name) + "oom-" + ledger.substr(name) + ".json";
}

// The launcher finds a link to the file in its folder.
bool renders(const std::string& json) noexcept {
  constexpr int kMostLinks = 1000;  // programs of one process, and snapshots of each
  if (reports[0] == '\0' || std::strcmp(reports, kCompares) == 0 || !launcher_waits())
    return false;
  char whole[PATH_MAX];
  if (realpath(json.c_str(), whole) == nullptr) return false;
  for (int n = 0; n < kMostLinks; ++n) {
    char link[sizeof folder + 64];
    (void)std::snprintf(link, sizeof link, "%s/%s%d-%d", folder, ledger::kRender, getpid(), n);
    if (output::link_to(whole, link)) return true;
    if (errno != EEXIST) return false;
  }
  return false;
}

bool shows_findings() noexcept {
  return path[0] != '\0' &&
         std::strchr(reports, static_cast<char>(Report::Findings)) != nullptr;
}

void finish(Allocator& core) noexcept {
  if (path[0] == '\0') return;
  observe::end(observe::Watcher::Counters);
  try {
    history::finish_stacks();
    Book& book = *ledger::book();
    Counters counters{};
    note_counts(*book.head, &counters);
    counters.devices = static_cast<std::uint64_t>(devices);
    for (int i = 0; i < devices; ++i) {
      Inventory held;
      counters.device[i] = device_stats::read(core, i, &held);
      const RankedLock guard(book.mutex);
      put_down_held(book, held, i);
    }
    counters.host = process::pinned().stats();
    counters.passed = passed::table().read();
    note_driver_calls(&counters);
    put_down(counters);
    book.head->ended = ledger::clock_now();
    taken = book.head->partial == 0 && launcher_waits() && give(ledger::kDone);
    // A process that has dropped its rights cannot rename the file, but still write into it.
    if (!taken) book.head->own = 1;
  } catch (...) {
  }
  if (!taken) (void)give(ledger::kOwn);
}

bool takes(Report report) noexcept {
  return taken.load() && std::strchr(reports, static_cast<char>(report)) != nullptr;
}

}  // namespace custash::launcher
