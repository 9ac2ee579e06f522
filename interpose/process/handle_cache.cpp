// SPDX-License-Identifier: MIT
#include "interpose/process/handle_cache.hpp"

#include "allocator/base/rule.hpp"
#include "allocator/base/scope.hpp"
#include "allocator/work_in_flight.hpp"
#include "interpose/process/captures.hpp"
#include "interpose/process/quietly.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <new>
#include <tuple>
#include <utility>

namespace custash {
namespace {

constexpr Nanoseconds kSecond = 1'000'000'000;

Nanoseconds every(Allocator& core) {
  return core.config().decay * kSecond;
}

// A newer toolkit may give a meaning to the bytes that are reserved.
bool ordinary(const CUmemAllocationProp& properties) {
  const auto& flags = properties.allocFlags;
  const auto* const reserved = reinterpret_cast<const unsigned char*>(flags.reserved);
  return properties.type == CU_MEM_ALLOCATION_TYPE_PINNED &&
         properties.location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
         properties.win32HandleMetaData == nullptr && flags.compressionType == 0 &&
         flags.usage == 0 &&
         std::all_of(reserved, reserved + sizeof flags.reserved, [](unsigned char byte) {
           return byte == 0;
         });
}

int compare(const HandleCache::Memory& one, const HandleCache::Memory& other) {
  if (one.bytes != other.bytes) return one.bytes < other.bytes ? -1 : 1;
  return std::memcmp(&one.properties, &other.properties, sizeof one.properties);
}

// In a capture, and after a kernel's fault, the driver has the right answers.
bool driver_answers(Allocator& core, CUcontext* context) {
  return captures::under_way() || core.driver().ctx_get_current(context) != CUDA_SUCCESS ||
         (*context != nullptr && core.context_broken(*context));
}

}  // namespace

bool HandleCache::enter(Allocator& core, const Memory& memory, const Uses& left) noexcept {
  const Bytes most = core.config().handle_cache;
  if (memory.bytes > most || !ordinary(memory.properties)) return false;
  if (left.mapped && holds(Rule::cached_handles_are_not_mapped)) return false;
  if (left.referenced && holds(Rule::cached_handles_have_no_other_reference)) return false;
  if (left.elsewhere && holds(Rule::cached_handles_are_nowhere_else)) return false;
  bool entered = false;
  List too_much;
  quietly([&] {
    CUcontext context = nullptr;
    List entry{{memory}};
    if (driver_answers(core, &context) ||
        !WorkInFlight(core).take_ticket(context, &entry.front().ticket).ok())
      return;
    const int device = memory.properties.location.id;
    const Nanoseconds now = core.driver().now();
    const RankedLock lock(mutex_);
    if (cached_.empty()) next_decay_.store(now + every(core));
    Bytes& held = held_[device];
    alike_.emplace(&entry.front(), entry.begin());
    held += memory.bytes;
    if (held > most) move_oldest(device, held - most, &too_much);
    cached_.splice(cached_.end(), entry);
    count_.store(cached_.size());
    entered = true;
  });
  (void)release(core.driver(), std::move(too_much));
  return entered;
}

std::optional<CUmemGenericAllocationHandle> HandleCache::take(
    Allocator& core, Bytes bytes, const CUmemAllocationProp& properties) {
  CUcontext context = nullptr;
  if (empty() || driver_answers(core, &context)) return std::nullopt;
  WorkInFlight work(core);
  work.poll_tickets();
  const std::uint64_t passed = work.tickets_passed();
  const Cached wanted{{0, bytes, properties}};
  const RankedLock lock(mutex_);
  const auto oldest = alike_.lower_bound(&wanted);
  if (oldest == alike_.end() || compare(oldest->first->memory, wanted.memory) != 0 ||
      (oldest->first->ticket > passed && holds(Rule::cached_handles_wait_for_their_work)))
    return std::nullopt;
  const List::iterator found = oldest->second;
  const CUmemGenericAllocationHandle handle = found->memory.handle;
  forget(found);
  cached_.erase(found);
  count_.store(cached_.size());
  served_.fetch_add(1);
  return handle;
}

bool HandleCache::has(CUmemGenericAllocationHandle handle) {
  if (empty()) return false;
  const RankedLock lock(mutex_);
  return std::any_of(cached_.begin(), cached_.end(), [&](const Cached& each) {
    return each.memory.handle == handle;
  });
}

Bytes HandleCache::give_back(const Driver& driver, int device, Bytes bytes) noexcept {
  if (empty()) return 0;
  List out;
  {
    const RankedLock lock(mutex_);
    move_oldest(device, bytes, &out);
  }
  return release(driver, std::move(out));
}

void HandleCache::give_back_idle(const Driver& driver, int device) noexcept {
  if (empty()) return;
  List out;
  {
    const RankedLock lock(mutex_);
    Bytes idle = 0;  // they are the oldest
    for (const Cached& each : cached_)
      if (each.is_on(device) && each.seen) idle += each.memory.bytes;
    if (idle != 0) move_oldest(device, idle, &out);
    for (Cached& each : cached_)
      each.seen = each.seen || each.is_on(device);
  }
  (void)release(driver, std::move(out));
}

void HandleCache::decay(Allocator& core) noexcept {
  if (empty() || every(core) == 0 || captures::under_way()) return;
  const Nanoseconds now = core.driver().now();
  Nanoseconds due = next_decay_.load(std::memory_order_relaxed);
  if (now >= due && next_decay_.compare_exchange_strong(due, now + every(core)))
    give_back_idle(core.driver());
}

Bytes HandleCache::held(int device) {
  if (empty()) return 0;
  const RankedLock lock(mutex_);
  return held_on(device);
}

HandleCache::Counts HandleCache::read() {
  const RankedLock lock(mutex_);
  return {served_.load(), cached_.size(), held_on(kEveryDevice)};
}

bool HandleCache::Alike::operator()(const Cached* one, const Cached* other) const {
  const int order = compare(one->memory, other->memory);
  return order != 0 ? order < 0
                    : std::tie(one->ticket, one->memory.handle) <
                          std::tie(other->ticket, other->memory.handle);
}

void HandleCache::forget(List::iterator entry) {
  alike_.erase(&*entry);
  held_[entry->memory.properties.location.id] -= entry->memory.bytes;
}

void HandleCache::move_oldest(int device, Bytes bytes, List* out) {
  const Bytes most = std::min(bytes, held_on(device));
  Bytes moved = 0;
  for (auto at = cached_.begin(); at != cached_.end() && moved < most;) {
    const auto here = at++;
    if (!here->is_on(device)) continue;
    moved += here->memory.bytes;
    forget(here);
    out->splice(out->end(), cached_, here);
  }
  count_.store(cached_.size());
}

Bytes HandleCache::held_on(int device) const {
  Bytes sum = 0;
  for (const auto& [here, bytes] : held_)
    if (device == kEveryDevice || device == here) sum += bytes;
  return sum;
}

Bytes HandleCache::release(const Driver& driver, List what) {
  if (what.empty()) return 0;
  const RelaxedCapture relaxed(driver);
  Bytes released = 0;
  for (auto at = what.begin(); at != what.end();) {
    const auto here = at++;
    if (driver.mem_release(here->memory.handle) != CUDA_SUCCESS) continue;
    released += here->memory.bytes;
    what.erase(here);
  }
  if (what.empty()) return released;
  const RankedLock lock(mutex_);
  for (auto at = what.begin(); at != what.end(); ++at) {
    held_[at->memory.properties.location.id] += at->memory.bytes;
    try {
      alike_.emplace(&*at, at);
    } catch (...) {  // out of host memory: it serves nobody
    }
  }
  cached_.splice(cached_.begin(), what);
  count_.store(cached_.size());
  return released;
}

HandleCache& handle_cache() noexcept {
  alignas(HandleCache) static std::byte place[sizeof(HandleCache)];
  static auto& made = *new (place) HandleCache;
  return made;
}

namespace handle_caching {
namespace {

constinit const Driver* table = nullptr;
constinit decltype(Driver::mem_create) real_create = nullptr;
constinit decltype(Driver::mem_alloc) real_alloc = nullptr;

template <typename Call>
CUresult after_cached(int device, Bytes bytes, Call call) {
  handle_cache().give_back(*table, device, bytes);
  const CUresult result = call();
  return result == CUDA_ERROR_OUT_OF_MEMORY && handle_cache().give_back(*table, device) != 0
             ? call()
             : result;
}

CUresult CUDAAPI create(CUmemGenericAllocationHandle* out,
                        std::size_t bytes,
                        const CUmemAllocationProp* properties,
                        unsigned long long flags) {
  return after_cached(properties->location.id, bytes, [&] {
    return real_create(out, bytes, properties, flags);
  });
}

CUresult CUDAAPI alloc(CUdeviceptr* out, std::size_t bytes) {
  CUdevice device = HandleCache::kEveryDevice;
  (void)table->ctx_get_device(&device);
  return after_cached(device, bytes, [&] { return real_alloc(out, bytes); });
}

}  // namespace

void follow(Driver* driver) {
  if (driver->mem_create == nullptr) return;
  table = driver;
  real_create = driver->mem_create;
  real_alloc = driver->mem_alloc;
  driver->mem_create = create;
  driver->mem_alloc = alloc;
}

}  // namespace handle_caching
}  // namespace custash
