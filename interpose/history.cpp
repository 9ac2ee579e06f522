// SPDX-License-Identifier: MIT
#include "interpose/history.hpp"

#include "interpose/process.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <mutex>
#include <unordered_map>

#include <pthread.h>
#include <time.h>

namespace custash::history {
namespace {

constexpr std::size_t kFirstStretch = 64;  // allocations
constexpr std::size_t kMostDevices = 64;

struct Tracker {
  std::size_t capacity = 0;
  Nanoseconds since = 0;
  std::uint64_t events_seen = 0;
  std::vector<Event> ring;
  std::size_t oldest = 0;  // in a full ring
  stacks::StackTable stacks;
  std::uint64_t stacks_lost = 0;
  std::vector<Site> sites;
  std::unordered_map<std::uint64_t, std::uint32_t> site_of;  // stack, device and memory
  std::unordered_map<Address, Live> live;
  std::unordered_map<Address, std::pair<Bytes, std::uint16_t>> segments;  // bytes, device
  std::array<DeviceTrack, kMostDevices> devices{};
  std::size_t stretch_length = kFirstStretch;
  std::uint64_t allocations = 0;
  std::size_t stretch = 0;
};

constinit std::mutex mutex;
constinit Tracker* tracker = nullptr;  // made under the lock
constinit std::atomic<unsigned> wanted_depth{kUsualDepth};
// A malloc of the program's own may use CUDA, and the tracker uses malloc.
constinit thread_local bool inside = false;
// Python may allocate and free when it is asked for its lines: what it allocates then has no
// call site.
constinit thread_local bool taking = false;

Nanoseconds clock_now() {
  constexpr Nanoseconds kSecond = 1'000'000'000;
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<Nanoseconds>(now.tv_sec) * kSecond + static_cast<Nanoseconds>(now.tv_nsec);
}

// Device memory that is not ours is told apart: no segment of ours holds it.
observe::Memory kind_of(observe::Memory memory, Address address) {
  Allocator* const core = process::current.load(std::memory_order_acquire);
  const bool other = memory == observe::Memory::Device && core != nullptr &&
                     core->find(address, nullptr) == Ownership::Foreign;
  return other ? observe::Memory::Other : memory;
}

std::uint16_t current_device() {
  const Allocator* const core = process::current.load(std::memory_order_acquire);
  CUdevice device = 0;
  if (core == nullptr || core->driver().ctx_get_device(&device) != CUDA_SUCCESS) return 0;
  return static_cast<std::uint16_t>(std::clamp<int>(device, 0, kMostDevices - 1));
}

Bytes driver_free() {
  const Allocator* const core = process::current.load(std::memory_order_acquire);
  std::size_t free = 0;
  std::size_t total = 0;
  if (core == nullptr || core->driver().mem_get_info(&free, &total) != CUDA_SUCCESS) return 0;
  return free;
}

std::uint64_t handle_of(const observe::Stream& stream) {
  if (!stream.named) return 0;
  if (stream.handle != nullptr) return reinterpret_cast<std::uint64_t>(stream.handle);
  return reinterpret_cast<std::uint64_t>(
      stream.null == NullStream::Legacy ? CU_STREAM_LEGACY : CU_STREAM_PER_THREAD);
}

void add_event(Tracker& t, const Event& event) {
  if (t.capacity == 0) return;
  ++t.events_seen;
  if (t.ring.size() < t.capacity) return t.ring.push_back(event);
  t.ring[t.oldest] = event;
  t.oldest = (t.oldest + 1) % t.capacity;
}

stacks::Id add_stack(Tracker& t, const stacks::Stack& stack) {
  const stacks::Id id = t.stacks.add(stack.used());
  if (id == stacks::kNone) ++t.stacks_lost;
  return id;
}

std::uint32_t site_for(Tracker& t,
                       stacks::Id stack,
                       std::uint16_t device,
                       observe::Memory memory) {
  const std::uint64_t key = (std::uint64_t{stack} << 32U) | (std::uint64_t{device} << 8U) |
                            static_cast<std::uint64_t>(memory);
  const auto [it, fresh] =
      t.site_of.try_emplace(key, static_cast<std::uint32_t>(t.sites.size()));
  if (fresh) {
    Site site;
    site.stack = stack;
    site.device = device;
    site.memory = memory;
    t.sites.push_back(site);
  }
  return it->second;
}

// Half as many stretches, twice as long each.
void merge_stretches(Tracker& t) {
  constexpr std::size_t kHalf = Site::kStretches / 2;
  for (Site& site : t.sites) {
    for (; site.stretch + 1 < Site::kStretches;)
      site.low[++site.stretch] = site.bytes;
    for (std::size_t i = 0; i < kHalf; ++i)
      site.low[i] = std::min(site.low[2 * i], site.low[2 * i + 1]);
    site.stretch = kHalf - 1;
  }
  t.stretch_length *= 2;
  t.stretch = kHalf;
}

void count_allocation(Tracker& t) {
  ++t.allocations;
  t.stretch = t.allocations / t.stretch_length;
  if (t.stretch >= Site::kStretches) merge_stretches(t);
}

// What the site was at moments that have gone by without its changing.
void catch_up(const Tracker& t, Site& site) {
  const DeviceTrack& device = t.devices[static_cast<std::size_t>(site.device)];
  if (site.seen_peak != device.peaks) {
    site.at_peak_bytes = site.bytes;
    site.seen_peak = device.peaks;
  }
  while (site.stretch < t.stretch)
    site.low[++site.stretch] = site.bytes;
}

void change(Tracker& t, Site& site, std::int64_t bytes, int sign) {
  catch_up(t, site);
  site.bytes += sign * bytes;
  site.blocks += sign;
  std::int64_t& low = site.low[site.stretch];
  low = std::min(low, site.bytes);
  site.peak_bytes = std::max(site.peak_bytes, site.bytes);
  if (site.memory != observe::Memory::Device) return;
  DeviceTrack& device = t.devices[static_cast<std::size_t>(site.device)];
  device.bytes += sign * bytes;
  if (device.bytes > device.peak_bytes) {
    device.peak_bytes = device.bytes;
    ++device.peaks;
  }
}

void end_life(Tracker& t, std::unordered_map<Address, Live>::iterator it, Nanoseconds now) {
  const Live live = it->second;
  t.live.erase(it);
  Site& site = t.sites[live.site];
  change(t, site, static_cast<std::int64_t>(live.bytes), -1);
  if (site.memory != observe::Memory::Device) return;
  const Nanoseconds age = now > live.since ? now - live.since : 0;
  const int bucket =
      std::min(age <= 1 ? 0 : static_cast<int>(std::bit_width(age - 1)), kLifetimes - 1);
  ++t.devices[static_cast<std::size_t>(site.device)]
        .lifetimes[static_cast<std::size_t>(bucket)];
}

bool grows(const Tracker& t, const Site& site) {
  constexpr std::size_t kLooked = 8;
  constexpr int kRises = 6;
  if (t.stretch < kLooked) return false;  // the last one is not over
  int rises = 0;
  for (std::size_t i = t.stretch - kLooked + 1; i < t.stretch; ++i) {
    if (site.low[i] < site.low[i - 1]) return false;
    rises += site.low[i] > site.low[i - 1] ? 1 : 0;
  }
  return rises >= kRises;
}

// `body(tracker)` under the lock; nothing where there is no memory for it.
template <typename Body>
void with_tracker(Body body) noexcept {
  try {
    const std::lock_guard guard(mutex);
    if (tracker != nullptr) body(*tracker);
  } catch (...) {
  }
}

// `body(tracker, stack)`; the stack is taken before the lock.
template <typename Body>
void with_stack(Body body) noexcept {
  if (inside) return;
  stacks::Stack stack;
  if (!taking) {
    taking = true;
    stacks::take(wanted_depth.load(std::memory_order_relaxed), &stack);
    taking = false;
  }
  inside = true;
  with_tracker([&](Tracker& t) { body(t, stack); });
  inside = false;
}

// A block that is older than the history.
void freed_unseen(Address address, const observe::Stream& stream) {
  Allocator* const core = process::current.load(std::memory_order_acquire);
  BlockInfo info;
  if (core == nullptr || core->find(address, &info) != Ownership::Live || info.base != address)
    return;
  const std::uint16_t device = current_device();
  with_tracker([&](Tracker& t) {
    add_event(t,
              {clock_now(),
               address,
               info.requested,
               handle_of(stream),
               stacks::kNone,
               device,
               Action::Free,
               observe::Memory::Device});
  });
}

}  // namespace

bool start(std::size_t events, unsigned depth) noexcept {
  try {
    const std::lock_guard guard(mutex);
    if (tracker == nullptr) {
      tracker = new Tracker;
      tracker->since = clock_now();
      // A child of a fork has no memory of its own to follow; and its lock may be held.
      pthread_atfork(nullptr, nullptr, [] { observe::end(observe::Watcher::History); });
    }
    Tracker& t = *tracker;
    wanted_depth.store(std::min(depth, stacks::kMostDepth));
    if (events > t.capacity) {
      t.ring.reserve(events);
      std::rotate(
          t.ring.begin(), t.ring.begin() + static_cast<std::ptrdiff_t>(t.oldest), t.ring.end());
      t.oldest = 0;
      t.capacity = events;
    }
  } catch (...) {
    return false;
  }
  observe::begin(observe::Watcher::History);
  return true;
}

void stop() noexcept {
  observe::end(observe::Watcher::History);
}

bool started() noexcept {
  return observe::watched_by(observe::Watcher::History);
}

void allocated(observe::Memory memory,
               Address address,
               Bytes bytes,
               observe::Stream stream) noexcept {
  if (inside) return;
  const std::uint16_t device = current_device();
  memory = kind_of(memory, address);
  with_stack([&](Tracker& t, const stacks::Stack& stack) {
    const Nanoseconds now = clock_now();
    // Its free was not seen, as when its context was destroyed.
    if (const auto old = t.live.find(address); old != t.live.end()) end_life(t, old, now);
    count_allocation(t);
    const stacks::Id id = add_stack(t, stack);
    const std::uint32_t number = site_for(t, id, device, memory);
    t.live[address] = {bytes, number, now};
    Site& site = t.sites[number];
    ++site.allocations;
    site.allocated_bytes += static_cast<std::int64_t>(bytes);
    change(t, site, static_cast<std::int64_t>(bytes), 1);
    add_event(t, {now, address, bytes, handle_of(stream), id, device, Action::Alloc, memory});
  });
}

void freed(Address address, observe::Stream stream) noexcept {
  if (inside) return;
  inside = true;
  bool known = false;
  with_tracker([&](Tracker& t) {
    const auto it = t.live.find(address);
    known = it != t.live.end();
    if (!known) return;
    const Nanoseconds now = clock_now();
    const Live live = it->second;
    const Site& site = t.sites[live.site];
    add_event(t,
              {now,
               address,
               live.bytes,
               handle_of(stream),
               site.stack,
               static_cast<std::uint16_t>(site.device),
               Action::Free,
               site.memory});
    end_life(t, it, now);
  });
  if (!known) freed_unseen(address, stream);
  inside = false;
}

void refused(observe::Memory memory, Bytes bytes, observe::Stream stream) noexcept {
  const std::uint16_t device = current_device();
  const Bytes free = driver_free();
  with_stack([&](Tracker& t, const stacks::Stack& stack) {
    add_event(t,
              {clock_now(),
               free,
               bytes,
               handle_of(stream),
               add_stack(t, stack),
               device,
               Action::Oom,
               memory});
  });
}

void driver_call(Action action, Address address, Bytes bytes) noexcept {
  if (!started()) return;
  const std::uint16_t here = current_device();
  with_stack([&](Tracker& t, const stacks::Stack& stack) {
    std::uint16_t device = here;
    if (action == Action::SegmentAlloc || action == Action::SegmentMap) {
      t.segments[address] = {bytes, device};
    } else {
      const auto known = t.segments.find(address);
      if (known != t.segments.end()) {
        device = known->second.second;
        if (bytes == 0) bytes = known->second.first;
        t.segments.erase(known);
      }
    }
    add_event(t,
              {clock_now(),
               address,
               bytes,
               0,
               add_stack(t, stack),
               device,
               action,
               observe::Memory::Device});
  });
}

Reading read(Events events) {
  Reading out;
  const std::lock_guard guard(mutex);
  out.on = started();
  if (tracker == nullptr) return out;
  Tracker& t = *tracker;
  out.capacity = t.capacity;
  out.depth = wanted_depth.load();
  out.since = t.since;
  out.events_seen = t.events_seen;
  if (events == Events::With) {
    out.events = t.ring;
    std::rotate(out.events.begin(),
                out.events.begin() + static_cast<std::ptrdiff_t>(t.oldest),
                out.events.end());
  }
  for (Site& site : t.sites) {
    catch_up(t, site);
    site.growing = grows(t, site);
  }
  out.sites = t.sites;
  out.live.assign(t.live.begin(), t.live.end());
  out.devices.assign(t.devices.begin(), t.devices.end());
  while (!out.devices.empty() && out.devices.back().peaks == 0)
    out.devices.pop_back();
  for (std::size_t i = 0; i < t.stacks.size(); ++i) {
    const auto words = t.stacks.words(static_cast<stacks::Id>(i));
    out.stacks.emplace_back(words.begin(), words.end());
  }
  out.stacks_lost = t.stacks_lost;
  return out;
}

}  // namespace custash::history
