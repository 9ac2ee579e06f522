// SPDX-License-Identifier: MIT
// CoreTable: the functions of libcustash.so that libcustash-check.so calls, one for each row of
// core_table.def.
#pragma once

// clang-format off: first, as it includes cuda.h without the renaming macros
#include "interpose/real/real_driver.hpp"
// clang-format on
#include "allocator/allocator.hpp"
#include "allocator/base/log.hpp"
#include "allocator/base/words.hpp"
#include "allocator/cache/growth.hpp"
#include "allocator/cache/reclaim.hpp"
#include "allocator/cache/sampler.hpp"
#include "allocator/heap/arena.hpp"
#include "allocator/registry.hpp"
#include "allocator/sleep/idle_memory.hpp"
#include "allocator/sleep/standstill.hpp"
#include "interpose/counters/device_stats.hpp"
#include "interpose/counters/driver_calls.hpp"
#include "interpose/counters/passed.hpp"
#include "interpose/hooks/host_view.hpp"
#include "interpose/hooks/layouts.hpp"
#include "interpose/hooks/parameters.hpp"
#include "interpose/observe/observe.hpp"
#include "interpose/observe/report_library.hpp"
#include "interpose/process/callers.hpp"
#include "interpose/process/captures.hpp"
#include "interpose/process/check_library.hpp"
#include "interpose/process/descriptors.hpp"
#include "interpose/process/live_page.hpp"
#include "interpose/process/output_file.hpp"
#include "interpose/process/process.hpp"
#include "interpose/process/sleep_library.hpp"
#include "interpose/real/entry_points.hpp"
#include "interpose/service/service.hpp"
#include "pinned/first_touch.hpp"
#include "pinned/host_cache.hpp"
#include "pinned/host_limits.hpp"
#include "pinned/host_memory.hpp"
#include "pinned/host_reclaim.hpp"
#include "pinned/host_request.hpp"

#include <atomic>
#include <new>
#include <utility>

#include <unwind.h>

namespace custash {

using NamedNumbers = std::vector<std::pair<std::string, std::int64_t>>;

// Of a method: the object, and its arguments.
#define CORE_WITH_SELF(Class, ...) (Class & self __VA_OPT__(, ) __VA_ARGS__)

// An exception stays in its library: it may lie in memory that only the runtime of that one
// knows. `out_of_memory`, of the other library, throws std::bad_alloc in its place.
template <typename Call>
auto contained(void (*out_of_memory)(), Call call) -> decltype(call()) {
  try {
    return call();
  } catch (...) {
  }
  out_of_memory();
  __builtin_unreachable();
}

inline void throw_bad_alloc() {
  throw std::bad_alloc();
}

struct CoreTable {
  void (*out_of_memory)();
#define FUNCTION(id, result, name, params, how, args) result(*id) params;
#define METHOD(id, result, Class, name, params, how, args) \
  result(*id) CORE_WITH_SELF(Class, IN_PARENTHESES params);
#include "interpose/check/core_table.def"
};

// Each of the two libraries has an unwinder of its own, and an exception of one may pass frames
// of the other. GCC's is ready only after its first use.
inline void prepare_unwinder() {
  (void)_Unwind_Backtrace([](_Unwind_Context*, void*) { return _URC_END_OF_STACK; }, nullptr);
}

// libcustash-check.so exports these names; with custash linked in, open_reports() and
// open_sleep() are called.
using OpenChecks = const CheckLibrary*(const CoreTable* core);
using OpenReports = const ReportLibrary*(const CoreTable* core);
using OpenSleep = const SleepLibrary*(const CoreTable* core);
inline constexpr const char* kOpenChecks = "custash_open_checks";
inline constexpr const char* kOpenReports = "custash_open_reports";
inline constexpr const char* kOpenSleep = "custash_open_sleep";

// In libcustash-check.so: libcustash.so's, which outlives it. Order: none, all write the same.
inline constinit std::atomic<const CoreTable*> core_table{nullptr};

inline void use_core(const CoreTable* core) noexcept {
  core_table.store(core, std::memory_order_relaxed);
}

inline const CoreTable& core_calls() noexcept {
  return *core_table.load(std::memory_order_relaxed);
}

// A function of libcustash-check.so, for libcustash.so to call.
template <auto kFunction>
struct Contained;

template <typename Result, typename... Params, Result (*kFunction)(Params...)>
struct Contained<kFunction> {
  static Result call(Params... params) {
    return contained(core_calls().out_of_memory,
                     [&]() -> Result { return kFunction(std::forward<Params>(params)...); });
  }
};

}  // namespace custash

extern "C" __attribute__((visibility("default"))) custash::OpenChecks custash_open_checks;
extern "C" __attribute__((visibility("default"))) custash::OpenReports custash_open_reports;
extern "C" __attribute__((visibility("default"))) custash::OpenSleep custash_open_sleep;

namespace custash {

OpenReports open_reports;
OpenSleep open_sleep;

}  // namespace custash
