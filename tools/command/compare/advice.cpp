// SPDX-License-Identifier: MIT
#include "tools/command/compare/counters.hpp"
#include "tools/command/run/tell.hpp"
#include "tools/text.hpp"

namespace custash::compare {
namespace {

using run::counted;

constexpr double kMuchMore = 1.1;     // of memory
constexpr std::int64_t kOften = 10;   // percent
constexpr std::int64_t kEnough = 20;  // fewer events say nothing

bool is_often(std::int64_t events, std::int64_t of) {
  return events >= kEnough && events * 100 >= of * kOften;
}

std::string out_of(std::int64_t events, std::int64_t of, const std::string& noun) {
  return run::grouped(events) + " of " + counted(of, noun);
}

bool holds_more(const Observed& seen) {
  return seen.memory_without && seen.memory_with &&
         *seen.memory_with > *seen.memory_without * kMuchMore;
}

void advise_on_waits(const Observed& seen, std::vector<std::string>* out) {
  const Served& served = seen.served;
  if (is_often(served.free_waits, served.frees))
    out->push_back(out_of(served.free_waits, served.frees, "free") +
                   " waited for work whose results the host may read. If kernels get such "
                   "addresses only as parameters, try --conf free:parameters.");
  if (is_often(served.debt_waits, served.allocations))
    out->push_back("Streams waited for each other's memory on the GPU " +
                   counted(served.debt_waits, "time") +
                   ". With more memory they wait less: try --conf run_ahead:50." +
                   (holds_more(seen) ? " With run_ahead:0 they wait more, and the peak of "
                                       "device memory, which is higher with custash, falls."
                                     : ""));
}

void advise_on_memory(const Observed& seen, std::vector<std::string>* out) {
  const Served& served = seen.served;
  if (served.retries + served.ooms > 0)
    out->push_back("The device was full " + counted(served.retries + served.ooms, "time") +
                   ". To hold less memory beside what is in use, try --conf run_ahead:0.");
  else if (holds_more(seen) && served.debt_waits > 0 &&
           !is_often(served.debt_waits, served.allocations))
    out->push_back(
        "The peak of device memory is higher with custash, and several streams "
        "share it. To hold less, try --conf run_ahead:0.");
  else if (is_often(served.device_frees, served.allocations))
    out->push_back("custash released memory to the driver " +
                   counted(served.device_frees, "time") + " and allocated new memory " +
                   counted(served.device_allocs, "time") +
                   ". To keep idle memory, try --conf decay:0.");
  if (is_often(served.pinned_returns, served.pinned_allocations))
    out->push_back("custash released pinned memory " + counted(served.pinned_returns, "time") +
                   ". To keep it, try --conf pinned_decay:0.");
}

}  // namespace

std::vector<std::string> advice_for(const Observed& seen) {
  std::vector<std::string> out;
  advise_on_waits(seen, &out);
  advise_on_memory(seen, &out);
  return out;
}

std::string why_no_gain(const Observed& seen) {
  const Served& served = seen.served;
  if (served.processes == 0)
    return "No process reported the use of CUDA under custash. "
           "custash doctor -- PROGRAM may say why.";
  if (served.unknown > 0)
    return "Counters are missing, so custash cannot say why nothing is gained.";
  if (served.calls() == 0)
    return "The program asked for no memory that custash serves. "
           "custash doctor -- PROGRAM may say why.";
  constexpr double kLittle = 0.01;
  constexpr double kSecond = 1e9;
  if (seen.uncached && seen.uncached->plain_calls > 0) {
    const double spent = static_cast<double>(seen.uncached->plain_time) / kSecond;
    if (spent > seen.wall * kLittle) return "";
    std::string out = "The driver's own cudaMalloc and cudaFree take only ";
    add(out, "%.2g %% of the wall time.", spent / seen.wall * 100);
    return out;
  }
  constexpr double kFewASecond = 100;
  if (static_cast<double>(served.calls()) > kFewASecond * seen.wall) return "";
  return "The program makes few calls for memory: " + counted(served.calls(), "call") +
         ". It may have a cache of its own (docs/frameworks.md).";
}

}  // namespace custash::compare
