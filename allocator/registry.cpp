// SPDX-License-Identifier: MIT
#include "allocator/registry.hpp"

#include "allocator/scope.hpp"

#include <algorithm>

namespace custash {
namespace {

// Trivially destructible: threads end in any order with us.
struct ThreadCache {
  static constexpr std::size_t kStreams = 8;

  struct Entry {
    std::uint64_t epoch;
    CUcontext context;  // null for a named stream, whose handle says enough
    CUstream stream;
    DeviceCache* cache;
    Lane* lane;
  };

  Entry context;
  Entry streams[kStreams];
  std::uint64_t thread_number;
};

thread_local ThreadCache cached{};
std::atomic<std::uint64_t> next_thread_number{1};

std::uint64_t thread_number() {
  if (cached.thread_number == 0) cached.thread_number = next_thread_number.fetch_add(1);
  return cached.thread_number;
}

// A question that a healthy driver always answers; were it refused once, a submission would go
// uncounted.
template <typename Question>
CUresult ask_twice(Question ask) {
  const CUresult first = ask();
  return first == CUDA_SUCCESS ? first : ask();
}

CUstream normalise(CUstream stream, NullStream null) {
  if (stream != nullptr) return stream;
  return null == NullStream::PerThread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
}

}  // namespace

StreamName::StreamName(CUstream given, NullStream null) : stream(normalise(given, null)) {
  if (stream == CU_STREAM_PER_THREAD) thread = thread_number();
}

void Allocator::State::close_capture(const StreamName& stream) {
  Timeline* timeline = nullptr;
  {
    Lock lock(mutex);
    const auto it =
        std::find_if(open_captures.begin(), open_captures.end(), [&](const OpenCapture& open) {
          return open.stream == stream;
        });
    if (it == open_captures.end()) return;
    timeline = it->timeline;
    open_captures.erase(it);
    captures_open.fetch_sub(1);
  }
  timeline->capture_ended();
  release_graph_blocks();
}

DeviceCache* Allocator::State::cache(CUcontext context) {
  const std::uint64_t now = epoch.load();
  ThreadCache::Entry& entry = cached.context;
  if (entry.epoch == now && entry.context == context) return entry.cache;
  DeviceCache* found = known(context);
  if (found == nullptr) {
    CUdevice device = 0;
    {
      const CurrentContext current(driver, context);
      if (ask_twice([&] { return driver.ctx_get_device(&device); }) != CUDA_SUCCESS)
        return nullptr;
    }
    auto* made = new DeviceCache(
        {driver, config, pages, leftovers, graphs, budget(device)}, context, device);
    apply_limit(device);
    Lock lock(mutex);
    const auto [it, inserted] = caches.emplace(context, made);
    found = it->second;
    if (inserted) {
      count_contexts();
    } else {
      delete made;  // another thread was first; nobody has seen ours
    }
  }
  entry = {now, context, nullptr, found, nullptr};
  return found;
}

void Allocator::State::apply_limit(CUdevice device) {
  Bytes limit = config.limit == 0 ? ~0ULL : config.limit;
  std::size_t total = 0;
  if (config.limit_percent != 0 && driver.device_total_mem(&total, device) == CUDA_SUCCESS)
    limit = total / 100 * config.limit_percent;
  // A limit set by a call stays.
  if (budget(device).limit() == ~0ULL) budget(device).set_limit(limit);
}

DeviceCache* Allocator::State::known(CUcontext context) {
  Lock lock(mutex);
  const auto it = caches.find(context);
  return it == caches.end() ? nullptr : it->second;
}

DeviceCache* Allocator::State::known_to_thread(CUcontext context) {
  const ThreadCache::Entry& entry = cached.context;
  return entry.epoch == epoch.load() && entry.context == context ? entry.cache : nullptr;
}

StreamPlace Allocator::State::place(CUstream stream, NullStream null) {
  stream = normalise(stream, null);
  const bool is_default = stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
  CUcontext context = nullptr;
  if (is_default &&
      (ask_twice([&] { return driver.ctx_get_current(&context); }) != CUDA_SUCCESS ||
       context == nullptr)) {
    return {};
  }
  const std::uint64_t now = epoch.load();
  // Handles are addresses: the low bits say little.
  const auto bits = reinterpret_cast<std::uintptr_t>(stream);
  ThreadCache::Entry& entry = cached.streams[(bits ^ (bits >> 7U)) % ThreadCache::kStreams];
  if (entry.epoch == now && entry.stream == stream && entry.context == context) {
    return {entry.cache, entry.lane};
  }
  CUcontext owner = context;
  // Should the driver not tell, the current context is right for nearly every program; to leave
  // the submission uncounted would be wrong for all.
  if (!is_default && driver.stream_get_ctx(stream, &owner) != CUDA_SUCCESS &&
      (driver.ctx_get_current(&owner) != CUDA_SUCCESS || owner == nullptr)) {
    return {};
  }
  DeviceCache* found = cache(owner);
  if (found == nullptr) return {};
  Lane* lane = found->lane(stream, thread_number());
  entry = {now, context, stream, found, lane};
  return {found, lane};
}

DeviceCache* Allocator::State::owner(Address address) const {
  const PageOwner page = pages.find(address);
  if (page.slab != nullptr) return page.slab->cache;
  return page.segment != nullptr ? page.segment->cache : nullptr;
}

std::array<DeviceCache*, 2> Allocator::State::others(const DeviceCache& self,
                                                     Address first,
                                                     Address second) const {
  std::array<DeviceCache*, 2> owners{first == 0 ? nullptr : owner(first),
                                     second == 0 ? nullptr : owner(second)};
  for (DeviceCache*& each : owners) {
    if (each == &self) each = nullptr;
  }
  return owners;
}

std::vector<DeviceCache*> Allocator::State::all() {
  Lock lock(mutex);
  std::vector<DeviceCache*> out;
  for (const auto& [context, cache] : caches)
    out.push_back(cache);
  return out;
}

std::vector<Timeline*> Allocator::State::timelines() {
  if (DeviceCache* cache = only.load()) return {&cache->timeline()};
  std::vector<Timeline*> out;
  for (DeviceCache* cache : all())
    out.push_back(&cache->timeline());
  return out;
}

std::vector<DeviceCache*> Allocator::State::on_device(CUdevice device) {
  std::vector<DeviceCache*> out = all();
  std::erase_if(out, [&](const DeviceCache* cache) { return cache->device() != device; });
  return out;
}

void Allocator::State::count_contexts() {
  std::vector<CUdevice> devices;
  for (const auto& [context, cache] : caches)
    devices.push_back(cache->device());
  std::sort(devices.begin(), devices.end());
  contexts.store(static_cast<std::uint32_t>(devices.size()));
  only.store(caches.size() == 1 ? caches.begin()->second : nullptr);
  device_shared.store(std::adjacent_find(devices.begin(), devices.end()) != devices.end());
}

bool Allocator::State::others_at_work(DeviceCache& cache) {
  if (!device_shared.load()) return false;
  const std::vector<DeviceCache*> caches_here = on_device(cache.device());
  return std::any_of(caches_here.begin(), caches_here.end(), [&](DeviceCache* other) {
    return other != &cache && other->timeline().unfinished();
  });
}

Status Allocator::State::wait_for_others(DeviceCache& cache) {
  if (!others_at_work(cache)) return {};
  Status result;
  for (DeviceCache* other : on_device(cache.device())) {
    if (other == &cache) continue;
    // Its kernels' faults are not told here, nor is that it is being destroyed.
    const Status waited = other->timeline().wait_all();
    if (!other->timeline().broken() && !waited.ok()) result = waited;
  }
  return result;
}

DeviceCache* Allocator::State::remove(CUcontext context) {
  Lock lock(mutex);
  const auto it = caches.find(context);
  if (it == caches.end()) return nullptr;
  DeviceCache* found = it->second;
  caches.erase(it);
  count_contexts();
  return found;
}

}  // namespace custash
