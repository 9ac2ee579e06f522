// SPDX-License-Identifier: MIT
#include "interpose/counters/driver_calls.hpp"

#include "interpose/observe/report_library.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <tuple>

namespace custash::driver_calls {
namespace {

// Order: none. The counts may be seen apart from each other.
struct Histogram {
  std::atomic<std::uint64_t> failed{0};
  std::atomic<std::uint64_t> total{0};
  std::atomic<std::uint64_t> max{0};
  std::array<std::atomic<std::uint64_t>, kBuckets> buckets{};

  void add(Nanoseconds elapsed, bool ok) {
    constexpr auto kOrder = std::memory_order_relaxed;
    if (!ok) failed.fetch_add(1, kOrder);
    total.fetch_add(elapsed, kOrder);
    std::uint64_t most = max.load(kOrder);
    while (most < elapsed && !max.compare_exchange_weak(most, elapsed, kOrder)) {
    }
    const int bucket = elapsed <= 1 ? 0 : static_cast<int>(std::bit_width(elapsed - 1));
    buckets[static_cast<std::size_t>(std::min(bucket, kBuckets - 1))].fetch_add(1, kOrder);
  }
};

enum class Call {
#define CUSTASH_CALL_NUMBER(need, member, symbol, params) member,
  CUSTASH_DRIVER_CALLS(CUSTASH_CALL_NUMBER)
#undef CUSTASH_CALL_NUMBER
      Count
};

constexpr std::size_t kCalls = static_cast<std::size_t>(Call::Count);

constexpr std::array<const char*, kCalls> kSymbols = {
#define CUSTASH_CALL_SYMBOL(need, member, symbol, params) symbol,
    CUSTASH_DRIVER_CALLS(CUSTASH_CALL_SYMBOL)
#undef CUSTASH_CALL_SYMBOL
};

constinit std::array<Histogram, kCalls> histograms{};
using Clock = Nanoseconds (*)();
constinit Clock now = nullptr;

template <Call kCall, typename... Params>
void tell_history([[maybe_unused]] Params... params) {
  [[maybe_unused]] const std::tuple<Params...> all(params...);
  [[maybe_unused]] const auto tell = [](history::Action action, auto... what) {
    if (const ReportLibrary* const library = history_library())
      library->driver_call(action, what...);
  };
  if constexpr (kCall == Call::mem_alloc) {
    tell(history::Action::SegmentAlloc, *std::get<0>(all), std::get<1>(all), 0);
  } else if constexpr (kCall == Call::mem_free) {
    tell(history::Action::SegmentFree, std::get<0>(all), 0, 0);
  } else if constexpr (kCall == Call::mem_map) {
    tell(history::Action::SegmentMap, std::get<0>(all), std::get<1>(all), std::get<3>(all));
  } else if constexpr (kCall == Call::mem_unmap) {
    tell(history::Action::SegmentUnmap, std::get<0>(all), std::get<1>(all), 0);
  }
}

template <Call kCall, typename Function>
struct Timed;

template <Call kCall, typename... Params>
struct Timed<kCall, CUresult(CUDAAPI*)(Params...)> {
  using Function = CUresult(CUDAAPI*)(Params...);
  static inline constinit Function real = nullptr;

  static CUresult CUDAAPI call(Params... params) {
    constexpr auto kNumber = static_cast<std::size_t>(kCall);
    const ReportLibrary* const shown =
        observe::watched_by(observe::Watcher::Nvtx) ? report_library() : nullptr;
    const bool began = shown != nullptr && shown->begin_range(kSymbols[kNumber]);
    const Nanoseconds begin = now();
    const CUresult result = real(params...);
    if (began) shown->end_range();
    histograms[kNumber].add(now() - begin, result == CUDA_SUCCESS);
    if (result == CUDA_SUCCESS) tell_history<kCall>(params...);
    return result;
  }
};

template <Call kCall, typename Function>
void replace(Function* slot) {
  if (*slot == nullptr) return;
  Timed<kCall, Function>::real = *slot;
  *slot = Timed<kCall, Function>::call;
}

}  // namespace

bool is_slow(std::string_view symbol) {
  return symbol.substr(0, 5) == "cuMem" || symbol == "cuCtxSynchronize" ||
         symbol == "cuEventSynchronize";
}

void time_calls(Driver* driver, Which which) {
  now = driver->now;
#define CUSTASH_CALL_REPLACE(need, member, symbol, params) \
  if (which == Which::All || is_slow(symbol)) replace<Call::member>(&driver->member);
  CUSTASH_DRIVER_CALLS(CUSTASH_CALL_REPLACE)
#undef CUSTASH_CALL_REPLACE
}

std::vector<Timing> read() {
  std::vector<Timing> out;
  for (std::size_t i = 0; i < kCalls; ++i) {
    const Histogram& from = histograms[i];
    Timing timing{.name = kSymbols[i],
                  .failed = from.failed.load(),
                  .total_ns = from.total.load(),
                  .max_ns = from.max.load()};
    for (std::size_t b = 0; b < kBuckets; ++b)
      timing.count += timing.buckets[b] = from.buckets[b].load();
    if (timing.count != 0) out.push_back(timing);
  }
  return out;
}

}  // namespace custash::driver_calls
