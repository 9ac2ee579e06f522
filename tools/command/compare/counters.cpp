// SPDX-License-Identifier: MIT
#include "tools/command/compare/counters.hpp"

#include "interpose/history/ledger.hpp"
#include "interpose/process/live_page.hpp"
#include "tools/command/run/folder.hpp"

#include <algorithm>
#include <exception>

#include <unistd.h>

namespace custash::compare {
namespace {

void add_device(const custash_device_stats_t& stats, Served* sum) {
  constexpr int kAll = CUSTASH_ALL;
  sum->allocations += stats.allocation[kAll].allocated;
  sum->requested_bytes += stats.requested_bytes[kAll].allocated;
  sum->frees += stats.allocation[kAll].freed;
  sum->free_waits += stats.num_free_waits;
  sum->fences += stats.num_fences;
  sum->fence_queries += stats.num_fence_queries;
  sum->debt_waits += stats.num_debt_waits;
  sum->retries += stats.num_alloc_retries;
  sum->ooms += stats.num_ooms;
  sum->device_allocs += stats.num_device_alloc;
  sum->device_frees += stats.num_device_free;
  sum->peak_in_use += stats.allocated_bytes[kAll].peak;
  sum->peak_reserved += stats.reserved_bytes[kAll].peak;
}

void add_counters(const ledger::Counters& counters, Served* sum) {
  for (std::size_t i = 0; i < std::min<std::size_t>(counters.devices, ledger::kCounted); ++i)
    add_device(counters.device[i], sum);
  for (std::size_t i = 0; i < sum->passed.size(); ++i) {
    sum->passed[i].calls += counters.passed[i].calls;
    sum->passed[i].bytes += counters.passed[i].bytes;
    sum->passed[i].live += counters.passed[i].live;
    sum->passed[i].live_bytes += counters.passed[i].live_bytes;
  }
  sum->pinned_allocations += counters.host.in_use.allocated;
  sum->pinned_frees += counters.host.in_use.freed;
  sum->pinned_allocs += counters.host.num_host_alloc;
  sum->pinned_returns += counters.host.num_host_free;
  sum->driver_calls += static_cast<std::int64_t>(counters.driver_calls.count);
  sum->driver_time += counters.driver_calls.time;
  for (const ledger::CallTime& plain : {counters.mem_alloc, counters.mem_free}) {
    sum->plain_calls += static_cast<std::int64_t>(plain.count);
    sum->plain_time += plain.time;
  }
}

}  // namespace

std::string launcher_text(const run::Folder& folder) {
  return "c " + std::to_string(getpid()) + " " + std::to_string(live::start_of(getpid())) +
         " " + folder.path();
}

Served served_in(const run::Folder& folder) {
  Served sum;
  for (const run::LedgerName& name : folder.ledgers()) {
    ++sum.processes;
    std::optional<ledger::Copy> copy;
    try {
      copy = run::read_ledger(name.path);
    } catch (const std::exception&) {  // it is damaged: more than there is memory for
    }
    const bool known =
        copy && copy->head.ended != 0 && copy->head.counters_which < copy->counters.size();
    if (known)
      add_counters(copy->counters[copy->head.counters_which], &sum);
    else
      ++sum.unknown;
  }
  return sum;
}

const Served& median_of(const std::vector<Served>& runs) {
  std::vector<const Served*> order;
  for (const Served& each : runs)
    order.push_back(&each);
  const auto middle = order.begin() + static_cast<std::ptrdiff_t>((order.size() - 1) / 2);
  std::nth_element(order.begin(), middle, order.end(), [](const Served* a, const Served* b) {
    return a->calls() < b->calls();
  });
  return **middle;
}

std::optional<std::int64_t> time_saved(const std::optional<Served>& uncached,
                                       const Served& served) {
  constexpr std::int64_t kNearlyAll = 90;  // percent
  if (!uncached || served.calls() == 0 || served.unknown != 0 || uncached->unknown != 0 ||
      uncached->plain_calls * 100 < served.calls() * kNearlyAll)
    return std::nullopt;
  return static_cast<std::int64_t>(uncached->plain_time) -
         static_cast<std::int64_t>(served.driver_time);
}

}  // namespace custash::compare
