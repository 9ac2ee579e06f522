// SPDX-License-Identifier: MIT
#include "interpose/history/history.hpp"

#include "interpose/history/history_tracker.hpp"
#include "interpose/history/ledger_reading.hpp"
#include "interpose/process/process.hpp"

#include <algorithm>
#include <atomic>

namespace custash::history {
namespace {

using ledger::clock_now;

constinit Tracker* tracker = nullptr;  // made under the book's lock, as is what it does
// Order: none, each is read by itself.
constinit std::atomic<unsigned> wanted_depth{kUsualDepth};
constinit std::atomic<bool> keeps_events{false};
constinit std::atomic<bool> is_on{false};
// The program's malloc may use CUDA, and the tracker uses malloc.
constinit thread_local bool inside = false;

class Inside {
 public:
  Inside() : before_(inside) { inside = true; }

  ~Inside() { inside = before_; }

  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  bool before_;
};

// Python may allocate and free while custash reads its lines. Such an allocation has no call
// site.
constinit thread_local bool taking = false;

// Device memory counts as the driver's own where no segment of ours holds it.
observe::MemoryKind kind_of(observe::MemoryKind memory, Address address) {
  Allocator* const core = process::running();
  const bool other = memory == observe::MemoryKind::Device && core != nullptr &&
                     core->find(address, nullptr) == Ownership::Foreign;
  return other ? observe::MemoryKind::Other : memory;
}

std::uint16_t current_device() {
  const Allocator* const core = process::running();
  CUdevice device = 0;
  if (core == nullptr || core->driver().ctx_get_device(&device) != CUDA_SUCCESS) return 0;
  return static_cast<std::uint16_t>(
      std::clamp<int>(device, 0, static_cast<int>(ledger::kDevices) - 1));
}

Bytes driver_free() {
  const Allocator* const core = process::running();
  return core == nullptr ? 0 : core->driver().free_bytes().value_or(0);
}

std::uint64_t handle_of(const observe::Stream& stream) {
  if (!stream.named) return 0;
  if (stream.handle != nullptr) return reinterpret_cast<std::uint64_t>(stream.handle);
  return reinterpret_cast<std::uint64_t>(
      stream.null == NullStream::Legacy ? CU_STREAM_LEGACY : CU_STREAM_PER_THREAD);
}

// The history knows memory by its address. No device has addresses as high as these.
Address stand_in(passed::Kind kind, std::uint64_t object) {
  constexpr unsigned kBits = 49;  // of pointers; and a number in JSON has 53
  return (object & ((Address{1} << kBits) - 1)) | ((static_cast<Address>(kind) + 1) << kBits);
}

// Calls `body(tracker)` under the lock; does nothing where host memory ran out.
template <typename Body>
void with_tracker(Body body) noexcept {
  try {
    ledger::Book* const book = ledger::book();
    if (book == nullptr) return;
    const RankedLock guard(book->mutex);
    if (tracker != nullptr) body(*tracker);
  } catch (...) {
  }
}

// Calls `body(tracker, stack)`. The stack is taken before the lock, where it is `wanted`.
template <typename Body>
void with_stack(Body body, bool wanted = true) noexcept {
  if (inside) return;
  stacks::Stack stack;
  if (wanted && !taking) {
    taking = true;
    stacks::capture(wanted_depth.load(std::memory_order_relaxed), &stack);
    taking = false;
  }
  inside = true;
  with_tracker([&](Tracker& t) { body(t, stack); });
  inside = false;
}

// After the lock: it reads a file. Not under a lock of the core's.
void describe_stacks() noexcept {
  bool unknown = false;
  with_tracker([&](Tracker& t) { unknown = t.describe_stacks(); });
  if (!unknown) return;
  try {
    const auto modules = mapped_code();
    with_tracker([&](Tracker& t) { t.add_modules(modules); });
  } catch (...) {
  }
}

// A block that is older than the history.
void freed_unseen(Address address, const observe::Stream& stream, stacks::Id freed_by) {
  Allocator* const core = process::running();
  BlockInfo info;
  if (core == nullptr || core->find(address, &info) != Ownership::Live || info.base != address)
    return;
  const std::uint16_t device = current_device();
  with_tracker([&](Tracker& t) {
    t.add_event({clock_now(),
                 address,
                 info.requested,
                 handle_of(stream),
                 stacks::kNone,
                 device,
                 Action::Free,
                 observe::MemoryKind::Device,
                 freed_by});
  });
}

void ran_out(observe::MemoryKind memory, Bytes bytes, observe::Stream stream) {
  const std::uint16_t device = current_device();
  const Bytes free = driver_free();
  with_stack([&](Tracker& t, const stacks::Stack& stack) {
    t.add_event({clock_now(),
                 free,
                 bytes,
                 handle_of(stream),
                 t.add_stack(stack),
                 device,
                 Action::Oom,
                 memory});
  });
}

void allocated(observe::MemoryKind memory,
               Address address,
               Bytes bytes,
               observe::Stream stream) noexcept {
  if (inside) return;
  const std::uint16_t device = current_device();
  memory = kind_of(memory, address);
  bool fresh = false;
  with_stack([&](Tracker& t, const stacks::Stack& stack) {
    const Nanoseconds now = clock_now();
    // The free of the older block was not seen, for instance because its context was destroyed.
    Bytes before = 0;
    (void)t.end_life(address, now, &before);
    const stacks::Id id = t.add_stack(stack);
    t.begin_life(address, bytes, id, device, memory, now);
    t.add_event({now, address, bytes, handle_of(stream), id, device, Action::Alloc, memory});
    fresh = t.has_new_stacks();
  });
  if (!fresh) return;
  inside = true;
  describe_stacks();
  inside = false;
}

void freed(Address address, observe::Stream stream) noexcept {
  if (inside) return;
  bool known = false;
  bool fresh = false;
  stacks::Id freed_by = stacks::kNone;
  const bool kept = keeps_events.load(std::memory_order_relaxed);
  const auto end_life = [&](Tracker& t, const stacks::Stack& stack) {
    const Nanoseconds now = clock_now();
    Bytes bytes = 0;
    const Site* const site = t.end_life(address, now, &bytes);
    if (kept) freed_by = t.add_stack(stack);
    fresh = t.has_new_stacks();
    known = site != nullptr;
    if (!known) return;
    t.add_event({now,
                 address,
                 bytes,
                 handle_of(stream),
                 site->stack,
                 static_cast<std::uint16_t>(site->device),
                 Action::Free,
                 site->memory,
                 freed_by});
  };
  with_stack(end_life, kept);
  inside = true;
  if (!known) freed_unseen(address, stream, freed_by);
  if (fresh) describe_stacks();
  inside = false;
}

observe::Token before(const observe::Call& call) {
  if (call.frees()) freed(call.address, call.stream);
  return 0;
}

void after(const observe::Call& call, CUresult result, observe::Token) {
  if (call.allocated(result)) allocated(call.memory, call.address, call.bytes, call.stream);
  if (call.ran_out(result)) ran_out(call.memory, call.bytes, call.stream);
}

constexpr observe::Observer kObserver{.before = before, .after = after};

}  // namespace

bool start(std::size_t events, unsigned depth) noexcept {
  try {
    const Inside here;
    ledger::Book& book = ledger::make_book(nullptr);
    const RankedLock guard(book.mutex);
    if (tracker == nullptr) tracker = new Tracker(book);
    depth = std::min(depth, stacks::kMostDepth);
    wanted_depth.store(depth);
    if (events > 0) keeps_events.store(true);
    tracker->start(events, depth);
    book.head->history_on = 1;
  } catch (...) {
    return false;
  }
  is_on.store(true);
  observe::begin(observe::Watcher::History, &kObserver);
  return true;
}

void stop() noexcept {
  is_on.store(false);
  observe::end(observe::Watcher::History);
  if (ledger::Book* const book = ledger::book()) book->head->history_on = 0;
}

bool started() noexcept {
  return is_on.load();
}

void made(passed::Kind kind, std::uint64_t object, Bytes bytes) noexcept {
  if (bytes != 0) allocated(observe::MemoryKind::Other, stand_in(kind, object), bytes, {});
}

void ended(passed::Kind kind, std::uint64_t object) noexcept {
  freed(stand_in(kind, object), {});
}

void driver_call(Action action,
                 Address address,
                 Bytes bytes,
                 CUmemGenericAllocationHandle handle) noexcept {
  const std::uint16_t device = current_device();
  with_stack([&](Tracker& t, const stacks::Stack& stack) {
    t.change_segments({clock_now(),
                       address,
                       bytes,
                       0,
                       t.add_stack(stack),
                       device,
                       action,
                       observe::MemoryKind::Device},
                      handle);
  });
}

void finish_stacks() noexcept {
  inside = true;
  describe_stacks();
  inside = false;
}

Reading read(Events events) {
  ledger::Book* const book = ledger::book();
  Reading out;
  if (book != nullptr) {
    const Inside here;  // the program's malloc may use CUDA
    const RankedLock guard(book->mutex);
    if (tracker != nullptr) out = ledger::reading_of(ledger::copy_of(*book, events));
  }
  out.on = started();
  return out;
}

}  // namespace custash::history
