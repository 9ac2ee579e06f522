// SPDX-License-Identifier: MIT
#include "interpose/reports/nvtx.hpp"

#include "interpose/observe/observe.hpp"
#include "interpose/process/process.hpp"

#include <atomic>

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define CUSTASH_NVTX 1
#if __has_include(<nvtx3/nvToolsExtCounters.h>)  // from CUDA 13 on
#include <nvtx3/nvToolsExtCounters.h>
#include <nvtx3/nvToolsExtSemanticsCounters.h>
#define CUSTASH_NVTX_COUNTERS 1
#endif
#endif

#include <array>
#include <cstdio>

namespace custash::nvtx {

#ifdef CUSTASH_NVTX

namespace {

// Order: `made` is released after the domain is made. The time stands alone.
constinit std::atomic<nvtxDomainHandle_t> made{nullptr};

// NVTX loads the tool at the first call. The tool may call CUDA while it starts, and so reach
// this file again in the same thread.
constinit thread_local bool inside = false;

class Inside {
 public:
  Inside() : entered_(!inside) {
    if (entered_) inside = true;
  }

  ~Inside() {
    if (entered_) inside = false;
  }

  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  Inside(Inside&& other) = delete;

  [[nodiscard]] bool entered() const { return entered_; }

 private:
  const bool entered_;
};

// Two threads may make it twice: tools know a domain by its name.
nvtxDomainHandle_t domain() {
  nvtxDomainHandle_t known = made.load(std::memory_order_acquire);
  if (known == nullptr) {
    known = nvtxDomainCreateA("custash");
    made.store(known, std::memory_order_release);
  }
  return known;
}

bool begin(const char* name, std::uint64_t bytes) {
  const Inside call;
  if (!call.entered()) return false;
  nvtxEventAttributes_t event{};
  event.version = NVTX_VERSION;
  event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  event.messageType = NVTX_MESSAGE_TYPE_ASCII;
  event.message.ascii = name;
  if (bytes != 0) {
    event.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
    event.payload.ullValue = bytes;
  }
  (void)nvtxDomainRangePushEx(domain(), &event);
  return true;
}

// A range that has begun must end.
void end(bool began) {
  if (began) (void)nvtxDomainRangePop(domain());
}

#ifdef CUSTASH_NVTX_COUNTERS

constexpr int kCounted = 32;  // devices

struct Counters {
  std::uint64_t in_use = 0;
  std::uint64_t held = 0;
};

constinit std::array<Counters, kCounted> counters{};
constinit std::atomic<bool> sampling{false};  // guards `counters`
constinit std::atomic<Nanoseconds> next_sample{0};

std::uint64_t made_counter(int device, const char* what) {
  char name[48];
  (void)std::snprintf(name, sizeof name, "device %d: %s", device, what);
  nvtxSemanticsCounter_t semantics{};
  semantics.header.structSize = sizeof semantics;
  semantics.header.semanticId = NVTX_SEMANTIC_ID_COUNTERS_V1;
  semantics.header.version = NVTX_COUNTER_SEMANTIC_VERSION;
  semantics.unit = "bytes";
  semantics.unitScaleNumerator = semantics.unitScaleDenominator = 1;
  nvtxCounterAttr_t counter{};
  counter.structSize = sizeof counter;
  counter.schemaId = NVTX_PAYLOAD_ENTRY_TYPE_INT64;
  counter.name = name;
  counter.scopeId = NVTX_SCOPE_CURRENT_SW_PROCESS;
  counter.semantics = &semantics.header;
  counter.counterId = NVTX_COUNTER_ID_NONE;
  return nvtxCounterRegister(domain(), &counter);
}

void sample_device(Allocator& core, int device) {
  constexpr auto kAll = static_cast<std::size_t>(StatPool::All);
  const DeviceStats stats = core.stats(device);
  Counters& mine = counters[static_cast<std::size_t>(device)];
  if (mine.in_use == 0 && stats.reserved_bytes[kAll].current == 0) return;
  if (mine.in_use == 0) mine = {made_counter(device, "in use"), made_counter(device, "held")};
  nvtxCounterSampleInt64(domain(), mine.in_use, stats.allocated_bytes[kAll].current);
  nvtxCounterSampleInt64(domain(), mine.held, stats.reserved_bytes[kAll].current);
}

void sample() {
  constexpr Nanoseconds kPause = 100'000;
  const Inside call;
  Allocator* const core = process::running();
  if (!call.entered() || core == nullptr) return;
  const Nanoseconds now = core->driver().now();
  if (now < next_sample.load(std::memory_order_relaxed) || sampling.exchange(true)) return;
  next_sample.store(now + kPause, std::memory_order_relaxed);
  int devices = 0;
  (void)core->driver().device_get_count(&devices);
  for (int i = 0; i < devices && i < kCounted; ++i)
    sample_device(*core, i);
  sampling.store(false);
}

#else

void sample() {
}

#endif

observe::Token before(const observe::Call& call) {
  return begin(call.name, call.bytes) ? 1 : 0;
}

void after(const observe::Call& /*call*/, CUresult /*result*/, observe::Token began) {
  end(began != 0);
  sample();
}

constexpr observe::Observer kObserver{.before = before, .after = after, .sees_nodes = true};

}  // namespace

bool start() noexcept {
  observe::begin(observe::Watcher::Nvtx, &kObserver);
  return true;
}

bool begin_range(const char* name) noexcept {
  return begin(name, 0);
}

void end_range() noexcept {
  end(true);
}

#else

bool start() noexcept {
  return false;
}

bool begin_range(const char* /*name*/) noexcept {
  return false;
}

void end_range() noexcept {
}

#endif

}  // namespace custash::nvtx
