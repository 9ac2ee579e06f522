// SPDX-License-Identifier: MIT
// Proved: tests/models/ends.pml, tests/models/peers.pml and tests/models/sleep.pml.
#include "allocator/registry.hpp"

#include "allocator/base/rule.hpp"
#include "allocator/base/scope.hpp"

#include <algorithm>

namespace custash {
namespace {

// A question that a healthy driver always answers; were it refused once, a submission would go
// uncounted.
template <typename Question>
CUresult ask_twice(Question ask) {
  const CUresult first = ask();
  return first == CUDA_SUCCESS ? first : ask();
}

// Whether SYNC_MEMOPS is set for all memory of the context.
bool has_sync_memops(const Driver& driver, CUcontext context) {
  unsigned flags = 0;
  const CurrentContext current(driver, context);
  return current.status().ok() && driver.ctx_get_flags(&flags) == CUDA_SUCCESS &&
         (flags & kContextSyncMemops) != 0;
}

}  // namespace

StreamName::StreamName(CUstream given, NullStream null)
    : stream(Allocator::State::normalise(given, null)) {
  if (stream == CU_STREAM_PER_THREAD) thread = ThreadBindings::mine().number();
}

void Allocator::State::close_capture(const StreamName& stream, const void* graph) {
  Captures::Number number = 0;
  {
    Lock lock(mutex);
    const auto it =
        std::find_if(open_captures.begin(), open_captures.end(), [&](const OpenCapture& open) {
          return open.stream == stream;
        });
    if (it == open_captures.end()) return;
    number = it->number;
    open_captures.erase(it);
    captures_open.fetch_sub(1);
  }
  gate.capture_ended();
  release(captures.ended(number, graph));
}

void Allocator::State::release(const Captures::Numbers& ended) {
  if (ended.empty()) return;
  for (ContextCache* cache : all())
    cache->freed_blocks().captures_ended(ended);
}

ContextCache* Allocator::State::cache(CUcontext context) {
  StreamBinding* found = binding(context);
  return found == nullptr ? nullptr : found->cache;
}

StreamBinding* Allocator::State::binding(CUcontext context) {
  ThreadBindings& bindings = ThreadBindings::mine();
  const std::uint64_t now = epoch.load();
  if (StreamBinding* found = bindings.find_plain(now, context)) return found;
  ContextCache* found = known(context);
  if (found == nullptr) found = make_cache(context);
  if (found == nullptr) return nullptr;
  return bindings.remember({.epoch = now, .context = context, .cache = found});
}

ContextCache* Allocator::State::make_cache(CUcontext context) {
  CUdevice device = 0;
  CUcontext home = context;
  {
    const CurrentContext current(driver, context);
    if (ask_twice([&] { return driver.ctx_get_device(&device); }) != CUDA_SUCCESS)
      return nullptr;
    if (current.status().ok()) home = home_of(CU_STREAM_LEGACY, context);
  }
  if (home != context) {
    ContextCache* its = cache(home);
    Lock lock(mutex);
    if (its != nullptr) greens_[context] = its;
    return its;
  }
  auto* made = new ContextCache({driver,
                                 config,
                                 pages,
                                 accounts,
                                 deferred_unmaps,
                                 captures,
                                 limits.budget(device),
                                 gate,
                                 sleep_gate,
                                 whole_blocks,
                                 {others_idle, this}},
                                context,
                                device);
  limits.apply_options(device);
  {
    Lock lock(mutex);
    const auto [it, inserted] = caches_.emplace(context, made);
    if (!inserted) {
      delete made;  // another thread was first; no other thread has seen ours
      return it->second;
    }
    count_contexts();
    if (sleep_gate.closed()) made->timeline().submissions().bar();
  }
  // Afterwards, so that no call that sets the flags now is missed.
  if (engine.load() != nullptr) made->peer_grants().let_engines_reach();
  if (has_sync_memops(driver, context)) made->peer_grants().let_cards_reach();
  return made;
}

ContextCache* Allocator::State::known(CUcontext context) {
  Lock lock(mutex);
  const auto it = caches_.find(context);
  if (it != caches_.end()) return it->second;
  const auto green = greens_.find(context);
  return green == greens_.end() ? nullptr : green->second;
}

// The primary context, of which a stream's green context is a part; else `context`, the
// stream's.
CUcontext Allocator::State::home_of(CUstream stream, CUcontext context) const {
  CUcontext regular = nullptr;
  void* green = nullptr;
  const bool told = driver.stream_get_ctx_v2 != nullptr &&
                    driver.stream_get_ctx_v2(stream, &regular, &green) == CUDA_SUCCESS;
  return told && green != nullptr && holds(Rule::green_contexts_are_their_primary_s) ? regular
                                                                                     : context;
}

StreamPlace Allocator::State::place(CUstream stream, NullStream null) {
  const StreamBinding* found = binding(stream, null);
  return found == nullptr ? StreamPlace() : StreamPlace{found->cache, found->stream_state};
}

StreamBinding* Allocator::State::binding(CUstream stream, NullStream null) {
  stream = normalise(stream, null);
  CUcontext context = nullptr;
  if (is_default_stream(stream) &&
      (ask_twice([&] { return driver.ctx_get_current(&context); }) != CUDA_SUCCESS ||
       context == nullptr)) {
    return nullptr;
  }
  const std::uint64_t now = epoch.load();
  ThreadBindings& bindings = ThreadBindings::mine();
  if (StreamBinding* found = bindings.find(now, context, stream)) return found;
  CUcontext owner = context;
  // If the driver does not report it, the current context is right for nearly every program; to
  // leave the submission uncounted would be wrong for all.
  if (!is_default_stream(stream) && driver.stream_get_ctx(stream, &owner) != CUDA_SUCCESS &&
      (driver.ctx_get_current(&owner) != CUDA_SUCCESS || owner == nullptr)) {
    return nullptr;
  }
  const CUcontext home = home_of(is_default_stream(stream) ? CU_STREAM_LEGACY : stream, owner);
  ContextCache* found = cache(home);
  if (found == nullptr) return nullptr;
  if (stream == CU_STREAM_PER_THREAD) bindings.note_own_stream(found);
  StreamState* stream_state =
      found->stream_state(stream, bindings.number(), home == owner ? nullptr : owner);
  return bindings.remember({.epoch = now,
                            .context = context,
                            .stream = stream,
                            .cache = found,
                            .stream_state = stream_state});
}

std::array<ContextCache*, 2> Allocator::State::others(const ContextCache& self,
                                                      Address first,
                                                      Address second) const {
  std::array<ContextCache*, 2> owners{first == 0 ? nullptr : owner(first),
                                      second == 0 ? nullptr : owner(second)};
  for (ContextCache*& each : owners) {
    if (each == &self) each = nullptr;
  }
  return owners;
}

std::vector<ContextCache*> Allocator::State::all() {
  Lock lock(mutex);
  std::vector<ContextCache*> out;
  for (const auto& [context, cache] : caches_)
    out.push_back(cache);
  return out;
}

std::vector<Timeline*> timelines_of(std::span<ContextCache* const> caches) {
  std::vector<Timeline*> out;
  for (ContextCache* cache : caches)
    out.push_back(&cache->timeline());
  return out;
}

std::vector<Timeline*> Allocator::State::timelines() {
  if (ContextCache* cache = only.load()) return {&cache->timeline()};
  return timelines_of(all());
}

std::vector<ContextCache*> Allocator::State::on_device(CUdevice device) {
  std::vector<ContextCache*> out = all();
  std::erase_if(out, [&](const ContextCache* cache) { return cache->device() != device; });
  return out;
}

void Allocator::State::count_contexts() {
  std::vector<CUdevice> devices;
  for (const auto& [context, cache] : caches_)
    devices.push_back(cache->device());
  std::sort(devices.begin(), devices.end());
  contexts.store(static_cast<std::uint32_t>(devices.size()));
  only.store(caches_.size() == 1 ? caches_.begin()->second : nullptr);
  device_shared.store(std::adjacent_find(devices.begin(), devices.end()) != devices.end());
}

bool Allocator::State::others_are_at_work(ContextCache& cache) {
  const std::vector<ContextCache*> caches_here = on_device(cache.device());
  return std::any_of(caches_here.begin(), caches_here.end(), [&](ContextCache* other) {
    return other != &cache && other->timeline().fences().unfinished();
  });
}

bool Allocator::State::others_idle(void* state, ContextCache& self, Unseen unseen) {
  State& all = *static_cast<State*>(state);
  if (!all.device_shared.load()) return true;
  bool idle = true;
  const bool living = visit_living(all.on_device(self.device()), [&](ContextCache& other) {
    if (&other == &self) return;
    Timeline& timeline = other.timeline();
    const Position before = timeline.fences().passed();
    timeline.fences().poll(unseen == Unseen::Anew
                               ? timeline.submissions().submitted_with_unseen()
                               : timeline.submissions().submitted());
    if (timeline.fences().passed() != before) self.timeline().fences().patience().note_end();
    idle = idle && (timeline.events().broken() || !timeline.fences().unfinished());
  });
  return living && idle;
}

Status Allocator::State::wait_for_others(ContextCache& cache) {
  if (!others_at_work(cache)) return {};
  Status result;
  const auto wait = [&](ContextCache& other) {
    if (&other == &cache) return;
    // Its kernels' faults are not reported here.
    const Status waited = other.timeline().fences().wait_all();
    if (!other.timeline().events().broken() && !waited.ok()) result = waited;
  };
  // Who destroys one waits for its work. Who releases one is in the driver until it is over.
  constexpr Nanoseconds kShort = 50'000;
  while (!visit_living(on_device(cache.device()), wait))
    driver.rest(kShort);
  return result;
}

ContextCache* Allocator::State::remove(CUcontext context) {
  Lock lock(mutex);
  const auto it = caches_.find(context);
  if (it == caches_.end()) return nullptr;
  ContextCache* found = it->second;
  caches_.erase(it);
  std::erase_if(greens_, [&](const auto& green) { return green.second == found; });
  count_contexts();
  return found;
}

Captures::Numbers Allocator::State::doom(CUcontext context, ContextCache& cache) {
  Captures::Numbers ends;
  Lock lock(mutex);
  std::erase_if(open_captures, [&](const OpenCapture& open) {
    if (open.timeline != &cache.timeline()) return false;
    ends.push_back(open.number);
    return true;
  });
  captures_open.fetch_sub(static_cast<std::uint32_t>(ends.size()));
  doomed_.emplace_back(context, &cache);
  return ends;
}

ContextCache* Allocator::State::take_doomed(CUcontext context) {
  Lock lock(mutex);
  const auto it = std::find_if(doomed_.begin(), doomed_.end(), [&](const auto& entry) {
    return entry.first == context;
  });
  if (it == doomed_.end()) return nullptr;
  ContextCache* const cache = it->second;
  doomed_.erase(it);
  retired_.push_back(cache);
  return cache;
}

void Allocator::State::count_ended(ContextCache& cache, const DeviceStats& of_device) {
  DeviceStats of_cache = cache.report().stats();
  of_cache.end();
  Lock lock(mutex);
  DeviceStats& sum = ended[cache.device()];
  sum.add_ended(of_cache);
  sum.raise_peaks(of_device);
}

}  // namespace custash
