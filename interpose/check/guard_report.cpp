// SPDX-License-Identifier: MIT
#include "interpose/check/guard_report.hpp"

#include "allocator/base/log.hpp"
#include "interpose/check/guard_finding.hpp"
#include "interpose/check/guard_findings.hpp"
#include "interpose/check/guard_owners.hpp"
#include "interpose/check/guarded_memory.hpp"
#include "interpose/check/kernel_log.hpp"
#include "interpose/process/process.hpp"
#include "interpose/process/ranked_mutex.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <set>
#include <thread>

namespace custash::guards {
namespace {

constinit RankedMutex mutex{HookRank::Guards};
const Config* options = nullptr;  // lives as long as the process
// Order: none. Addresses beyond them are no guarded block's.
constinit std::atomic<Address> lowest{~0ULL};
constinit std::atomic<Address> highest{0};
// Whether a fault is being reported, or has been. Only the thread that tells it goes from the
// one to the other.
enum class Telling : int { No, Now, Over };
constinit std::atomic<Telling> telling{Telling::No};
// The program's malloc may use CUDA, and the book uses malloc.
constinit thread_local bool inside = false;

// Never destroyed, as programs free memory after main.
GuardBook& book() REQUIRES(mutex) {
  static auto* const made = new GuardBook;
  return *made;
}

// The blocks that were reported, and how each was found.
std::set<std::pair<std::uint64_t, Source>>& told() REQUIRES(mutex) {
  static auto* const made = new std::set<std::pair<std::uint64_t, Source>>;
  return *made;
}

// Calls `body()` unless this thread is in it already. Host memory may run out.
template <typename Body>
void once_in(Body body) noexcept {
  if (inside) return;
  inside = true;
  try {
    body();
  } catch (...) {
  }
  inside = false;
}

Words stack_here() {
  stacks::Stack stack;
  stacks::capture(options->history_depth, &stack);
  return {stack.used().begin(), stack.used().end()};
}

// The block's context and device.
void note_place(Block* block) {
  const Allocator* const core = process::running();
  CUdevice device = 0;
  if (core == nullptr) return;
  (void)core->driver().ctx_get_device(&device);
  (void)core->driver().ctx_get_current(&block->context);
  block->device = device;
}

// Work that named one of the blocks; all where none is suspected. Newest first.
std::vector<Work> last_work(const std::vector<Suspect>& suspects) REQUIRES(mutex) {
  constexpr std::size_t kShown = 8;
  const auto uses = [&](const Work& work) {
    return std::any_of(suspects.begin(), suspects.end(), [&](const Suspect& suspect) {
      return std::any_of(
          work.addresses.begin(), work.addresses.begin() + work.count, [&](Address each) {
            return each - suspect.block.address <= suspect.block.bytes;
          });
    });
  };
  const auto& all = book().work();
  std::vector<Work> out;
  for (auto it = all.rbegin(); it != all.rend() && out.size() < kShown; ++it)
    if (suspects.empty() || uses(*it)) out.push_back(*it);
  return out;
}

// One of a kind is enough for a block. What a call has written is found in the slack again.
bool is_first(const Block& block, Source source) REQUIRES(mutex) {
  if (source == Source::Slack && told().contains({block.allocated, Source::Call})) return false;
  return told().insert({block.allocated, source}).second;
}

std::optional<Near> nearest(Address address, Bytes bytes) {
  const RankedLock lock(mutex);
  return book().nearest(address, bytes);
}

// Reports one block, about which there is no doubt.
void report_on(GuardFinding finding, const Block& block, Kind kind, Bytes distance) {
  finding.certain = true;
  finding.suspects.push_back({block, kind, distance});
  {
    const RankedLock lock(mutex);
    if (!is_first(block, finding.source)) return;
    finding.work = last_work(finding.suspects);
  }
  report(finding);
}

// One row of a copy lies in a block in use, and the other so far away that it touches none.
void look_far(const char* call, Address row, Address other, Bytes bytes) {
  if (!may_be_guarded(row)) return;
  const auto near = nearest(row, bytes);
  if (!near || near->place != Place::Inside || near->block.freed != 0 ||
      !still_lives(near->block))
    return;
  const Block& block = near->block;
  const auto there = nearest(other, bytes);
  if ((there && there->touches) || !is_outside(other, block)) return;
  const bool past = other > row;
  report_on({.source = Source::Call, .call = call, .told_to = stack_here()},
            block,
            past ? Kind::PastEnd : Kind::BeforeBeginning,
            past ? other + bytes - block.end() : block.address - other);
}

// Order: none. One thread finds out why; it takes a while.
void note_guards(bool guarded, Address address) {
  static constinit std::atomic<bool> is_known{false};
  const bool asks = !guarded && !is_known.exchange(true);
  count_block(guarded, asks ? why_unguarded(*options, address) : "");
}

// Another thread reports the fault: the process may end only afterwards. It waits for files,
// and for no longer than this.
void wait_until_told() noexcept {
  constexpr int kTries = 600;
  for (int i = 0; i < kTries && telling.load() == Telling::Now; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

void allocated(const observe::Call& call) {
  const Watch watch = watch_of(call.memory, call.address, call.bytes);
  if (watch == Watch::No) return;
  once_in([&] {
    note_guards(watch == Watch::WithGuards, call.address);
    Block block{.address = call.address, .bytes = call.bytes, .memory = call.memory};
    note_place(&block);
    block.stream = call.stream;
    block.allocated_by = stack_here();
    const RankedLock lock(mutex);
    lowest.store(std::min(lowest.load(), block.address));
    highest.store(std::max(highest.load(), block.end()));
    book().allocated(std::move(block));
  });
}

enum : observe::Token { kUnknown, kInUse };

// Whether the block is in use: then a free fails because its context has ended before.
observe::Token before(const observe::Call& call) {
  observe::Token token = kUnknown;
  if (!call.frees() || !may_be_guarded(call.address)) return token;
  once_in([&] {
    {
      const RankedLock lock(mutex);
      if (book().living(call.address) == nullptr) return;
    }
    Words by = stack_here();
    const RankedLock lock(mutex);
    if (book().freed(call.address, std::move(by))) token = kInUse;
  });
  return token;
}

void free_failed(Address address) {
  if (!may_be_guarded(address)) return;
  once_in([&] {
    const auto near = nearest(address, 1);
    if (!near || near->place != Place::Inside) return;
    const bool is_part = near->distance != 0;
    if (near->block.freed == 0 ? !is_part || !still_lives(near->block)
                               : !is_freed(address, near->block))
      return;
    report_on({.source = Source::Free, .told_to = stack_here()},
              near->block,
              is_part ? Kind::PartFree : Kind::SecondFree,
              near->distance);
  });
}

void after(const observe::Call& call, CUresult result, observe::Token token) {
  if (call.allocated(result)) allocated(call);
  if (call.free_failed(result) && token != kInUse) free_failed(call.address);
}

constexpr observe::Observer kObserver{.before = before, .after = after};

}  // namespace

void begin(const Config& config,
           void (*say)(const std::string& line),
           void* (*symbol)(const char* name)) {
  options = &config;
  begin_findings(config, say);
  begin_owners(config, symbol);
  observe::begin(observe::Watcher::Guards, &kObserver);
  kernel_log::begin();
}

void finish(Allocator& core) noexcept {
  if (options == nullptr) return;
  wait_until_told();
  GuardedMemory(core).check_all();
  if (HostSampler* const pinned = process::pinned().sampler()) pinned->check_all();
  kernel_log::end();
  once_in([] { end_findings(); });
}

void reset_lock_after_fork() noexcept {
  mutex.reset_after_fork();
  telling.store(Telling::No);  // the thread that reported it is not here
  kernel_log::reset_after_fork();
  reset_findings_after_fork();
}

void context_ended(CUcontext context) noexcept {
  if (options == nullptr) return;
  const RankedLock lock(mutex);
  book().ended(context);
}

bool may_be_guarded(Address address) noexcept {
  constexpr Bytes kBeside = 1_GiB;
  const Address low = lowest.load(std::memory_order_relaxed);
  const Address high = highest.load(std::memory_order_relaxed);
  return low < high && address + kBeside >= low && address < high + kBeside;
}

void submitted(Work&& work) noexcept {
  once_in([&] {
    const RankedLock lock(mutex);
    book().submitted(std::move(work));
  });
}

std::uint64_t now() noexcept {
  const RankedLock lock(mutex);
  return book().now();
}

void over(CUcontext context, std::optional<CUstream> stream, std::uint64_t number) noexcept {
  const RankedLock lock(mutex);
  book().over(context, stream, number);
}

void will_use(const char* call, Address address, Bytes bytes) noexcept {
  if (bytes == 0 || !may_be_guarded(address)) return;
  once_in([&] {
    const auto near = nearest(address, bytes);
    if (!near || !near->touches) return;
    const bool lives = near->block.freed == 0;
    if (lives ? near->place == Place::Inside || !still_lives(near->block)
              : !is_freed(address, near->block))
      return;
    report_on({.source = Source::Call, .call = call, .told_to = stack_here()},
              near->block,
              kind_at(*near),
              lives ? near->distance : 0);
  });
}

void will_use_rows(const char* call, Address first, Address last, Bytes bytes) noexcept {
  will_use(call, first, bytes);
  if (first == last) return;
  will_use(call, last, bytes);
  once_in([&] {
    look_far(call, first, last, bytes);
    look_far(call, last, first, bytes);
  });
}

void slack_written(const SlackWrite& what) noexcept {
  once_in([&] {
    const auto near = nearest(what.address, 1);
    Block block{.address = what.address, .bytes = what.bytes};
    if (near && near->block.address == what.address) block = near->block;
    report_on({.source = Source::Slack},
              block,
              what.past ? Kind::PastEnd : Kind::BeforeBeginning,
              what.distance);
  });
}

void host_fault(Address address, const char* access, stacks::Word called_from) noexcept {
  once_in([&] {
    const auto near = nearest(address, 1);
    if (!near || near->block.memory != observe::MemoryKind::Pinned) return;
    const bool lives = near->block.freed == 0;
    if (lives && near->place == Place::Inside) return;
    Words told_to = stack_here();
    const auto handler = std::find(told_to.begin(), told_to.end(), called_from);
    if (handler != told_to.end()) told_to.erase(told_to.begin(), handler + 1);
    report_on({.source = Source::Host, .call = access, .told_to = std::move(told_to)},
              near->block,
              kind_at(*near),
              lives ? near->distance : 0);
  });
}

void fault(CUresult code) noexcept {
  if (options == nullptr || inside || !is_of_memory(code)) return;
  Telling state = Telling::No;
  if (!telling.compare_exchange_strong(state, Telling::Now)) return wait_until_told();
  once_in([&] {
    GuardFinding finding{.error = static_cast<int>(code)};
    finding.told_to = stack_here();
    const auto page = kernel_log::fault();
    {
      const RankedLock lock(mutex);
      if (page && may_be_guarded(page->page)) {
        finding.page = page->page;
        finding.call = page->access;
        finding.suspects = suspects_at(book(), page->page, kernel_log::kPage);
      } else {
        finding.suspects = suspects_in_flight(book());
      }
      finding.work = last_work({});
    }
    report(finding);
  });
  telling.store(Telling::Over);
}

}  // namespace custash::guards
