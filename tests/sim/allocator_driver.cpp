// SPDX-License-Identifier: MIT
// make_driver: the entries as an allocator calls them. Its waits, queries and submissions are
// told apart from the program's, so that the race detector knows what the allocator has learnt
// and what it touches itself.
#include "tests/sim/world.hpp"

#include <atomic>
#include <cstring>

namespace custash::sim {
namespace {

thread_local int inside = 0;  // so many calls that are told apart
std::atomic<bool> made{false};

bool is_told_apart(const char* symbol) {
  for (const char* each : {"cuEventQuery",
                           "cuEventSynchronize",
                           "cuCtxSynchronize",
                           "cuMemFree_v2",
                           "cuMemFreeHost",
                           "cuMemHostUnregister",
                           "cuMemsetD8Async",
                           "cuMemsetD32Async",
                           "cuLaunchKernel",
                           "cuMemcpyHtoDAsync_v2",
                           "cuMemcpyDtoDAsync_v2",
                           "cuMemcpyDtoHAsync_v2"})
    if (std::strcmp(symbol, each) == 0) return true;
  return false;
}

template <typename Tag, typename Signature>
struct Watched;

template <typename Tag, typename... Params>
struct Watched<Tag, CUresult(Params...)> {
  using Entry = CUresult(CUDAAPI*)(Params...);
  static inline Entry entry = nullptr;

  static CUresult CUDAAPI call(Params... params) {
    ++inside;
    const CUresult result = entry(params...);
    --inside;
    return result;
  }

  static Entry over(const char* symbol) {
    const auto found = reinterpret_cast<Entry>(resolve(symbol));
    if (found == nullptr || !is_told_apart(symbol)) return found;
    entry = found;
    return call;
  }
};

}  // namespace

Driver make_driver() {
  Driver driver;
#define SIM_FILL_MEMBER(need, member, symbol, params) \
  driver.member = Watched<struct member##_tag, CUresult params>::over(symbol);
  CUSTASH_DRIVER_CALLS(SIM_FILL_MEMBER)
#undef SIM_FILL_MEMBER
  driver.now = now;
  driver.rest = rest;
  return driver;
}

bool by_allocator() {
  return inside != 0;
}

void judge_by_allocator_waits() {
  made = true;
}

bool allocator_told() {
  return made;
}

void forget_allocator() {
  made = false;
}

}  // namespace custash::sim
