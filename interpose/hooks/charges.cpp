// SPDX-License-Identifier: MIT
#include "interpose/hooks/charges.hpp"

#include "allocator/base/last_error.hpp"
#include "allocator/base/log.hpp"
#include "allocator/base/rule.hpp"
#include "allocator/base/scope.hpp"
#include "allocator/base/thread.hpp"
#include "allocator/memory_limits.hpp"
#include "allocator/sleep/sleep.hpp"
#include "interpose/hooks/async_memory.hpp"
#include "interpose/hooks/hook.hpp"
#include "interpose/hooks/nvml.hpp"
#include "interpose/process/quietly.hpp"
#include "interpose/service/neighbours.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include <unistd.h>

namespace custash::charges {
namespace {

constexpr Nanoseconds kFresh = 50'000'000;
constexpr int kPatience = 1000;  // tries

// Of a device. One thread measures, and those that need it wait.
struct Measuring {
  std::atomic<bool> busy{false};
  std::atomic<Nanoseconds> at{0};         // 0: all wait
  std::atomic<std::uint64_t> changes{0};  // that were known then
  std::atomic<Bytes> managed{0};          // charged, but NVML counts it for no process
};

constinit std::array<Measuring, 64> measurings{};
constinit std::atomic<std::uint64_t> unseen_changes{1};

Measuring& measuring(int device) {
  return measurings[static_cast<std::size_t>(device) % measurings.size()];
}

struct PoolCharge {
  CUdevice device = -1;
  Bytes charged = 0;  // what it was seen to reserve
  std::uint64_t changes = 0;
};

constinit RankedMutex mutex{HookRank::OwnPools};
constinit std::atomic<int> pools_asked{0};  // by threads that hold copies of their handles

std::map<CUmemoryPool, PoolCharge>& pools() REQUIRES(mutex) {
  static auto& made = *new std::map<CUmemoryPool, PoolCharge>;  // never destroyed
  return made;
}

// The driver cuts small pieces out of pages, and makes others of whole ones.
Bytes rounded(Bytes bytes) {
  constexpr Bytes kPiece = 512;
  return align_up(bytes, bytes <= 1_MiB ? kPiece : 2_MiB);
}

// Null if neither limit counts such memory.
DeviceBudget* budget_of(Allocator* core, passed::Kind kind, CUdevice device) {
  if (core == nullptr || device < 0) return nullptr;
  if (!counts(*core) && kind != passed::Kind::Pitched) return nullptr;
  core->limits().apply_options(device);
  return &core->limits().budget(device);
}

bool try_take(
    DeviceBudget& budget, passed::Kind kind, CUdevice device, Bytes bytes, Quota::Call* call) {
  if (kind == passed::Kind::Pitched) return budget.take(bytes, call);
  if (!budget.quota().take(bytes, call)) return false;
  if (kind == passed::Kind::Managed) measuring(device).managed.fetch_add(bytes);
  return true;
}

void report_refusal(Allocator& core, CUdevice device, Bytes bytes, const char* what) {
  quietly([&] {
    const std::string text = "no room on device " + std::to_string(device) + " for " +
                             std::to_string(bytes) + " bytes (" + what + "); " +
                             core.limits().describe(device);
    set_last_error(text);
    log(LogLevel::Warn, "event=limit_reached reason=\"" + text + "\"");
  });
}

// Room that custash makes: its cache, and that of the members of a group.
bool make_room(Allocator& core, CUdevice device, Bytes bytes, const auto& took) {
  if (measure_again(device, bytes, &core) != 0 && took()) return true;
  (void)hooks::relieve(core);
  if (!captures::under_way()) core.trim(device, bytes).ignore();
  if (took()) return true;
  return core.limits().budget(device).quota().shared() && hooks::relieve_by_neighbours(core) &&
         took();
}

Bytes reserved(Allocator& core, CUmemoryPool pool) {
  const RelaxedCapture relaxed(core.driver());
  auto* const ask = real::function<CUresult(CUmemoryPool, CUmemPool_attribute, void*)>(
      Entry::hook_cuMemPoolGetAttribute);
  cuuint64_t bytes = 0;
  const bool told =
      ask != nullptr && ask(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &bytes) == CUDA_SUCCESS;
  return told ? bytes : 0;
}

CUdevice device_of(Allocator& core, CUmemoryPool pool) {
  {
    const RankedLock lock(mutex);
    if (const auto known = pools().find(pool); known != pools().end())
      return known->second.device;
  }
  CUdevice device = -1;
  if (!async_memory::is_default_pool(core, pool, &device)) return -1;
  pool_made(pool, device);
  return device;
}

// Pools release what they do not use, by themselves or where memory is short.
void settle_pools(Allocator& core, CUdevice device, bool release) {
  const RelaxedCapture relaxed(core.driver());
  Quota& quota = core.limits().budget(device).quota();
  auto* const trim =
      real::function<CUresult(CUmemoryPool, std::size_t)>(Entry::hook_cuMemPoolTrimTo);
  std::map<CUmemoryPool, PoolCharge> known;
  {
    const RankedLock lock(mutex);
    known = pools();
    pools_asked.fetch_add(1);
  }
  for (const auto& [pool, was] : known) {
    if (was.device != device || was.charged == 0) continue;
    if (release && trim != nullptr) (void)trim(pool, 0);
    const Bytes now = reserved(core, pool);
    const RankedLock lock(mutex);
    const auto at = pools().find(pool);
    // Else an allocation came between, and has found more.
    if (at == pools().end() || at->second.changes != was.changes || now >= was.charged)
      continue;
    at->second.charged = now;
    quota.give(was.charged - now);
  }
  pools_asked.fetch_sub(1);
}

// No pool reserves a smaller step.
Bytes pool_step(Bytes bytes) {
  return align_up(bytes, 32_MiB);
}

// Whether the result is exact, or cannot be had.
bool measure_alone(Allocator& core, CUdevice device, Measuring& its) {
  Quota& quota = core.limits().budget(device).quota();
  const RelaxedCapture relaxed(core.driver());
  const std::uint64_t changes = unseen_changes.load();
  const Quota::Before before = quota.before();
  const Bytes elsewhere = its.managed.load() + Sleep(core).asleep_bytes(device);
  const std::optional<Bytes> used = nvml::used_here(device, before.charged != 0);
  settle_pools(core, device, false);  // if one has released memory, the result is not exact
  const bool exact = !used || quota.found(*used + elsewhere, before);
  if (exact) its.changes.store(changes);
  return exact;
}

bool is_fresh(const Allocator& core, const Measuring& its, std::uint64_t known) {
  return its.changes.load() >= known && core.driver().now() - its.at.load() < kFresh;
}

enum class Result : std::uint8_t { Rough, Exact };

// An exact result needs a moment without calls under way, so new ones wait for it, some
// milliseconds at most. It is wanted where memory would be refused, and where there may be more
// that no call tells.
void measure(Allocator& core, CUdevice device, Result wanted) {
  constexpr int kExact = 50;
  constexpr useconds_t kPause = 100;
  const CancellationOff off;
  Measuring& its = measuring(device);
  const std::uint64_t known = unseen_changes.load();
  for (int tries = 0; its.busy.exchange(true); ++tries) {
    if (tries == kPatience) return;
    usleep(kPause);
  }
  if (wanted == Result::Exact || !is_fresh(core, its, known)) {
    const bool once = wanted == Result::Rough && its.changes.load() >= known;
    const int most = once ? 1 : kExact;
    if (!once) its.at.store(0);
    bool done = false;
    for (int tries = 0; !done && tries < most; ++tries) {
      if (tries != 0) usleep(kPause);
      quietly([&] { done = measure_alone(core, device, its); });
    }
    its.at.store(core.driver().now());
  }
  its.busy.store(false);
}

}  // namespace

bool take(passed::Kind kind, CUdevice device, Bytes bytes, Quota::Call* call) noexcept {
  Allocator* const core = process::core();
  DeviceBudget* const budget = budget_of(core, kind, device);
  if (budget == nullptr) return true;
  const Bytes charge = rounded(bytes);
  const auto took = [&] { return try_take(*budget, kind, device, charge, call); };
  if (took()) return true;
  if (!holds(Rule::driver_memory_is_charged_before_the_call)) {
    kind == passed::Kind::Pitched ? budget->add(charge) : budget->quota().add(charge);
    return true;
  }
  bool made = false;
  quietly([&] { made = make_room(*core, device, charge, took); });
  if (!made) report_refusal(*core, device, bytes, passed::name_of(kind));
  return made;
}

void give(passed::Kind kind, CUdevice device, Bytes bytes) noexcept {
  DeviceBudget* const budget = budget_of(process::core(), kind, device);
  if (budget == nullptr) return;
  if (kind == passed::Kind::Pitched)
    budget->give(rounded(bytes));
  else
    budget->quota().give(rounded(bytes));
  if (kind == passed::Kind::Managed) measuring(device).managed.fetch_sub(rounded(bytes));
}

void correct(passed::Kind kind, CUdevice device, Bytes before, Bytes after) noexcept {
  DeviceBudget* const budget = budget_of(process::core(), kind, device);
  if (budget == nullptr) return;
  budget->add(rounded(after));
  budget->give(rounded(before));
}

bool counts(const Allocator& core) noexcept {
  return core.config().limit_all.any() || !core.config().limit_of.empty();
}

CUdevice current_device() noexcept {
  Allocator* const core = process::core();
  CUdevice device = -1;
  return core != nullptr && core->driver().ctx_get_device(&device) == CUDA_SUCCESS ? device
                                                                                   : -1;
}

void changes_unseen() noexcept {
  unseen_changes.fetch_add(1);
}

void refresh(int device, bool again) noexcept {
  Allocator* const core = process::core();
  if (core == nullptr || device < 0 || !core->limits().budget(device).quota().limited()) return;
  Measuring& its = measuring(device);
  if (again) its.at.store(0);
  if (!is_fresh(*core, its, unseen_changes.load())) measure(*core, device, Result::Rough);
}

int measure_again(int device, std::size_t, void* core) {
  Allocator& its = *static_cast<Allocator*>(core);
  Quota& quota = its.limits().budget(device).quota();
  if (!quota.limited()) return 0;
  const Bytes before = quota.room();
  settle_pools(its, device, true);
  measure(its, device, Result::Exact);
  return quota.room() > before ? 1 : 0;
}

void pool_made(CUmemoryPool pool, CUdevice device) noexcept {
  quietly([&] {
    const RankedLock lock(mutex);
    pools()[pool] = {.device = device};
  });
}

CUresult destroy_pool(CUmemoryPool pool, CUresult (*real)(CUmemoryPool)) {
  const CancellationOff off;
  std::map<CUmemoryPool, PoolCharge>::node_type its;
  {
    const RankedLock lock(mutex);
    its = pools().extract(pool);
  }
  for (int tries = 0; pools_asked.load() != 0 && tries < kPatience; ++tries)
    usleep(100);  // nobody may ask a pool that has ended
  const Quota::Call charged;
  const CUresult result = real(pool);
  if (its.empty()) return result;
  if (result != CUDA_SUCCESS) {
    const RankedLock lock(mutex);
    pools().insert(std::move(its));
  } else if (DeviceBudget* const budget =
                 budget_of(process::core(), passed::Kind::Pool, its.mapped().device)) {
    budget->quota().give(its.mapped().charged);
  }
  return result;
}

bool take_from_pool(Allocator& core,
                    CUmemoryPool pool,
                    Bytes bytes,
                    Quota::Call* call) noexcept {
  const CUdevice device = device_of(core, pool);
  DeviceBudget* const budget = budget_of(&core, passed::Kind::Pool, device);
  if (budget == nullptr) return true;
  const auto took = [&] { return budget->quota().take(pool_step(bytes), call); };
  if (took()) return true;
  bool made = false;
  quietly([&] {
    // What was freed in a stream's order is the pool's when that work is over.
    if (!captures::under_way()) (void)core.driver().ctx_synchronize();
    made = make_room(core, device, pool_step(bytes), took);
  });
  if (!made) report_refusal(core, device, bytes, passed::name_of(passed::Kind::Pool));
  return made;
}

void taken_from_pool(Allocator& core, CUmemoryPool pool, Bytes bytes) noexcept {
  const CUdevice device = device_of(core, pool);
  DeviceBudget* const budget = budget_of(&core, passed::Kind::Pool, device);
  if (budget == nullptr) return;
  const Bytes now = reserved(core, pool);
  {
    const RankedLock lock(mutex);
    PoolCharge& its = pools()[pool];
    ++its.changes;
    if (now > its.charged) {
      budget->quota().add(now - its.charged);
      its.charged = now;
    }
  }
  budget->quota().give(pool_step(bytes));
}

FreeMemory free_memory(Allocator& core, CUdevice device, const FreeMemory& real) {
  core.limits().apply_options(device);
  refresh(device, false);
  // What neighbours would return counts, too, as they published it last.
  const Bytes cached = core.reclaimable(device);
  const Bytes ours = cached + neighbours::spare(core, device);
  const Bytes free = real.free - std::min(real.free, Sleep(core).asleep_bytes(device));
  const DeviceBudget& budget = core.limits().budget(device);
  const Bytes size = std::min(real.total, budget.size());
  return {std::min({free + ours, budget.room_with(cached), size}), size};
}

}  // namespace custash::charges
