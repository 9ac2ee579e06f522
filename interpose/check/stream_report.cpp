// SPDX-License-Identifier: MIT
#include "interpose/check/stream_report.hpp"

#include "interpose/check/check_time.hpp"
#include "interpose/check/guard_findings.hpp"
#include "interpose/check/stream_book.hpp"
#include "interpose/process/captures.hpp"
#include "interpose/process/process.hpp"
#include "interpose/process/quietly.hpp"
#include "interpose/process/ranked_mutex.hpp"

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>

namespace custash::streams {
namespace {

using guards::Words;

constinit RankedMutex mutex{HookRank::Streams};
const Config* options = nullptr;  // lives as long as the process
CUresult (*ask_pointer)(void*, CUpointer_attribute, CUdeviceptr) = nullptr;
CUresult (*ask_flags)(CUstream, unsigned*) = nullptr;
// Order: none. A call that comes by before it is set is not looked at.
constinit std::atomic<bool> begun{false};
// Order: none. Addresses beyond them are no block's.
constinit std::atomic<Address> lowest{~0ULL};
constinit std::atomic<Address> highest{0};
// The program's malloc may use CUDA, and the book uses malloc.
constinit thread_local bool inside = false;
// StreamOrder's, when this thread last asked for a chain.
constinit thread_local std::uint64_t epoch = 0;

StreamBook& book() REQUIRES(mutex) {
  static auto* const made = new StreamBook;  // never destroyed
  return *made;
}

// Calls `body()` unless this thread is in it already. Host memory may run out.
template <typename Body>
void once_in(Body body) noexcept {
  if (inside || !on()) return;
  const CheckTime::Scope timed;
  inside = true;
  try {
    body();
  } catch (...) {
  }
  inside = false;
}

template <typename Body>
void with_order(Body body) noexcept {
  once_in([&] {
    const RankedLock lock(mutex);
    body(book().order);
  });
}

Allocator* core() {
  return process::running();
}

Words stack_here() {
  stacks::Stack stack;
  stacks::capture(options->history_depth, &stack);
  return {stack.used().begin(), stack.used().end()};
}

std::uint64_t this_thread() {
  static constinit std::atomic<std::uint64_t> threads{0};
  thread_local const std::uint64_t number = threads.fetch_add(1) + 1;
  return number;
}

Name name_of(CUstream handle, CUcontext current) {
  if (handle == CU_STREAM_LEGACY) return {handle, current};
  if (handle == CU_STREAM_PER_THREAD) return {handle, current, this_thread()};
  return {handle};
}

bool is_old(const StreamOrder& order) {
  return order.epoch() != epoch;
}

// The book's chain. It queries the driver if the stream is new.
std::optional<Chain> find_chain(const observe::Stream& stream) {
  Allocator* const allocator = core();
  if (allocator == nullptr) return std::nullopt;
  const CUstream handle = guards::handle_of({true, stream.handle, stream.null});
  if (captures::under_way() && captures::is_capturing(*allocator, handle, stream.null))
    return std::nullopt;
  CUcontext context = nullptr;
  if (allocator->driver().ctx_get_current(&context) != CUDA_SUCCESS) return std::nullopt;
  const Name name = name_of(handle, context);
  {
    const RankedLock lock(mutex);
    epoch = book().order.epoch();
    if (const Chain* const known = book().order.find(name)) return *known;
  }
  bool blocking = handle == CU_STREAM_PER_THREAD;
  if (name.context == nullptr) {
    unsigned flags = 0;
    CUcontext its = nullptr;
    blocking = ask_flags == nullptr || ask_flags(handle, &flags) != CUDA_SUCCESS ||
               (flags & CU_STREAM_NON_BLOCKING) == 0;
    if (allocator->driver().stream_get_ctx(handle, &its) == CUDA_SUCCESS && its != nullptr)
      context = its;
  }
  const RankedLock lock(mutex);
  const Chain* const known = book().order.find(name);
  const Chain chain = known != nullptr ? *known : book().order.add(name, context, blocking);
  epoch = book().order.epoch();
  return chain;
}

// The book does not see when the address is somebody else's since.
bool is_freed(Address address) {
  Allocator* const allocator = core();
  if (allocator == nullptr) return false;
  const Ownership owner = allocator->find(address, nullptr);
  unsigned type = 0;
  return owner == Ownership::Cached ||
         (owner == Ownership::Foreign && ask_pointer != nullptr &&
          ask_pointer(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) ==
              CUDA_ERROR_INVALID_VALUE);
}

void report(std::vector<Fault>& faults) {
  for (Fault& each : faults) {
    if (each.kind == guards::Kind::AfterFree && !is_freed(each.block.address)) continue;
    const bool at_free = each.kind == guards::Kind::FreeBesideUse;
    guards::GuardFinding finding{.source = guards::Source::Streams, .certain = true};
    finding.call = each.use.name;
    finding.told_to = at_free ? each.block.freed_by : each.use.by;
    finding.suspects.push_back({std::move(each.block), each.kind, 0});
    finding.work.push_back(std::move(each.use));
    guards::report(finding);
  }
}

void allocated(const observe::Call& call) {
  if (call.memory != observe::MemoryKind::Device) return;
  once_in([&] {
    const auto [address, bytes, stream] = std::tie(call.address, call.bytes, call.stream);
    const std::optional<Chain> chain = stream.named ? find_chain(stream) : std::nullopt;
    guards::Block block{.address = address, .bytes = bytes, .stream = stream};
    CUdevice device = 0;
    if (core() != nullptr) (void)core()->driver().ctx_get_device(&device);
    block.device = device;
    block.allocated_by = stack_here();
    const RankedLock lock(mutex);
    if (stream.named && (!chain || is_old(book().order)))  // a graph's, or not known
      return book().forget(address, bytes);
    lowest.store(std::min(lowest.load(), address));
    highest.store(std::max(highest.load(), block.end()));
    book().allocated(std::move(block), chain);
  });
}

observe::Token before(const observe::Call& call) {
  if (!call.frees()) return 0;
  once_in([&] {
    const observe::Stream& stream = call.stream;
    const std::optional<Chain> chain = stream.named ? find_chain(stream) : std::nullopt;
    std::vector<Fault> faults;
    Words by = stack_here();
    {
      const RankedLock lock(mutex);
      if (call.memory == observe::MemoryKind::Pinned)
        return book().order.is_over(book().order.of_all());  // the driver's free waits
      if (stream.named && (!chain || is_old(book().order)))  // when a graph runs, or not known
        return book().forget(call.address, 1);
      book().freed(call.address, std::move(by), chain, &faults);
    }
    report(faults);
  });
  return 0;
}

void after(const observe::Call& call, CUresult result, observe::Token) {
  if (call.allocated(result)) allocated(call);
  if (!call.free_failed(result)) return;
  once_in([&] {
    const RankedLock lock(mutex);
    book().forget(call.address, 1);
  });
}

constexpr observe::Observer kObserver{.before = before, .after = after, .sees_nodes = true};

}  // namespace

void begin(const Config& config,
           void (*say)(const std::string& line),
           void* (*symbol)(const char* name)) {
  options = &config;
  guards::begin_findings(config, say);
  ask_pointer = reinterpret_cast<decltype(ask_pointer)>(symbol("cuPointerGetAttribute"));
  ask_flags = reinterpret_cast<decltype(ask_flags)>(symbol("cuStreamGetFlags"));
  observe::begin(observe::Watcher::Streams, &kObserver);
  begun.store(true);
}

bool on() noexcept {
  return begun.load(std::memory_order_relaxed);
}

void give_up() noexcept {
  if (!begun.exchange(false)) return;
  observe::end(observe::Watcher::Streams);
  quietly([] { guards::warn("check_streams has ended: the program made a green context"); });
}

void finish() noexcept {
  if (options == nullptr || options->guard.any()) return;  // the guards say it
  quietly([] { guards::end_findings(); });
}

void reset_lock_after_fork() noexcept {
  mutex.reset_after_fork();
}

void named(Address address, CUstream stream) noexcept {
  once_in([&] {
    const std::optional<Chain> chain = find_chain({true, stream, NullStream::Legacy});
    const RankedLock lock(mutex);
    if (chain && !is_old(book().order)) book().named(address, *chain);
  });
}

std::optional<Chain> chain_of(const observe::Stream& stream) noexcept {
  std::optional<Chain> chain;
  once_in([&] { chain = find_chain(stream); });
  return chain;
}

bool may_know(Address address) noexcept {
  return address >= lowest.load(std::memory_order_relaxed) &&
         address < highest.load(std::memory_order_relaxed);
}

void submitted(Chain chain,
               const char* name,
               std::span<const Named> addresses,
               Naming naming) noexcept {
  once_in([&] {
    guards::Work work;
    work.name = name;
    for (const Named& each : addresses)
      work.note(each.address);
    bool abroad = false;
    if (!addresses.empty()) {
      const RankedLock lock(mutex);
      abroad = book().is_abroad(chain, addresses);
    }
    if (!addresses.empty()) guards::count_use();
    if (abroad) work.by = stack_here();
    std::vector<Fault> faults;
    {
      const RankedLock lock(mutex);
      if (is_old(book().order)) return;
      work.stream = book().order.handle_of(chain);
      book().used(chain, work, addresses, naming, &faults);
    }
    for (Fault& each : faults)
      if (each.use.by.empty()) each.use.by = stack_here();
    report(faults);
  });
}

void special(Chain chain, Special what) noexcept {
  with_order([&](StreamOrder& order) {
    if (is_old(order)) return;
    if (what == Special::WaitsUnseen) return order.waits_unseen(chain);
    order.is_over(order.of(chain));
    if (what == Special::TellsHost) return;
    order.waits(chain, order.of_all());  // its nodes may wait for any event, and record any
    order.graph_launched(chain);
  });
}

void recorded(CUevent event, Chain chain) noexcept {
  with_order([&](StreamOrder& order) {
    order.recorded(event, is_old(order) ? order.of_all() : order.of(chain));
  });
}

void recorded(CUevent event, CUcontext context) noexcept {
  with_order([&](StreamOrder& order) { order.recorded(event, order.of(context)); });
}

void waits(Chain chain, CUevent event) noexcept {
  with_order([&](StreamOrder& order) {
    if (is_old(order)) return order.is_over(order.of(event));
    order.waits(chain, order.of(event));
  });
}

void waits(Chain chain, const Clock& clock) noexcept {
  with_order([&](StreamOrder& order) {
    if (!is_old(order)) order.waits(chain, clock);
  });
}

void waits(CUcontext context, CUevent event) noexcept {
  with_order([&](StreamOrder& order) { order.all_wait(context, order.of(event)); });
}

void stream_destroyed(CUstream stream) noexcept {
  with_order([&](StreamOrder& order) { order.destroyed({stream}); });
}

void contexts_end() noexcept {
  with_order([&](StreamOrder& order) { order.forget_streams(); });
}

Clock awaited(Chain chain) noexcept {
  Clock clock;
  with_order([&](StreamOrder& order) {
    if (!is_old(order)) clock = order.given(chain);
  });
  return clock;
}

Clock awaited(CUevent event) noexcept {
  Clock clock;
  with_order([&](StreamOrder& order) { clock = order.of(event); });
  return clock;
}

Clock awaited(CUcontext context) noexcept {
  Clock clock;
  with_order([&](StreamOrder& order) { clock = order.of(context); });
  return clock;
}

void is_over(const Clock& clock) noexcept {
  with_order([&](StreamOrder& order) { order.is_over(clock); });
}

}  // namespace custash::streams
