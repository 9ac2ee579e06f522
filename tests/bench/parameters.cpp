// SPDX-License-Identifier: MIT
// What it costs to read a launch's parameters, apart from the launch, over the simulated driver
// (which tells the layouts). One line a case: nanoseconds a launch of the thread's own time,
// the least of several turns.
//
//   parameters [--quick]
#include "interpose/hooks/parameters.hpp"

#include "interpose/hooks/host_ranges.hpp"
#include "interpose/real/real_driver.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <vector>

#include <time.h>

namespace {

using custash::Address;
using custash::Driver;
using custash::parameters::HostAddresses;

constexpr Address kPinned = 0x7f00'0000'0000;
constexpr Address kApart = 1ULL << 30U;  // between the beginnings of two ranges
constexpr std::size_t kDifferent = 60;   // fewer than there are ranges

template <typename... Args>
void call(const char* symbol, Args... args) {
  auto* const function = reinterpret_cast<CUresult (*)(Args...)>(custash::real::symbol(symbol));
  if (function != nullptr && function(args...) == CUDA_SUCCESS) return;
  std::printf("%s failed\n", symbol);
  std::exit(1);
}

CUfunction function(const char* name) {
  CUmodule module = nullptr;
  CUfunction out = nullptr;
  call("cuModuleLoadData", &module, static_cast<const void*>("image"));
  call("cuModuleGetFunction", &out, module, name);
  return out;
}

struct Case {
  const char* kernel;
  std::size_t count;  // of parameters
  std::size_t words;  // of each
};

double own_time() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

double nanoseconds(const Driver& driver, CUfunction kernel, void** params, bool quick) {
  std::vector<double> turns;
  const int launches = quick ? 100 : 20'000;
  for (int turn = 0; turn < (quick ? 1 : 50); ++turn) {
    const double start = own_time();
    for (int i = 0; i < launches; ++i)
      if (custash::parameters::find_host_addresses(driver, kernel, params, nullptr) !=
          HostAddresses::None)
        return -1;
    turns.push_back((own_time() - start) / launches);
  }
  return *std::min_element(turns.begin(), turns.end());
}

// False: something was found, or, with the last word an address, nothing.
bool measure(const Driver& driver,
             const Case& each,
             const char* what,
             Address first,
             Address step,
             bool quick) {
  const CUfunction kernel = function(each.kernel);
  std::vector<Address> words(each.count * each.words);
  for (std::size_t i = 0; i < words.size(); ++i)
    words[i] = first + i % kDifferent * step;
  std::vector<void*> params(each.count);
  for (std::size_t i = 0; i < params.size(); ++i)
    params[i] = &words[i * each.words];
  const double ns = nanoseconds(driver, kernel, params.data(), quick);
  words.back() = kPinned + 8;
  const bool found = custash::parameters::find_host_addresses(
                         driver, kernel, params.data(), nullptr) == HostAddresses::Some;
  std::printf("%-12s %5zu bytes  %-28s %6.1f ns\n", each.kernel, 8 * words.size(), what, ns);
  return ns >= 0 && found;
}

}  // namespace

int main(int argc, char** argv) {
  const bool quick = argc > 1 && std::strcmp(argv[1], "--quick") == 0;
  Driver driver;
  CUcontext context = nullptr;
  if (!driver.fill(custash::real::symbol)) return 1;
  call("cuInit", 0U);
  call("cuDevicePrimaryCtxRetain", &context, 0);
  call("cuCtxSetCurrent", context);
  constexpr int kRanges = 64;
  for (int i = 0; i < kRanges; ++i)
    custash::host_ranges::add(reinterpret_cast<const void*>(kPinned + i * kApart), 1U << 20U);
  bool ok = true;
  for (const Case& each : {Case{"pointers_8", 8, 1},
                           Case{"pointers_32", 32, 1},
                           Case{"struct_256", 1, 32},
                           Case{"large", 1, 512},
                           Case{"pointers_512", 512, 1}}) {
    ok = measure(driver, each, "numbers", 1, 1, quick) && ok;
    ok = measure(driver, each, "elsewhere", 0x3'0200'0000, 4096, quick) && ok;
    ok = measure(driver, each, "between two ranges", kPinned + (2U << 20U), 4096, quick) && ok;
    ok = measure(
             driver, each, "each between two others", kPinned + (2U << 20U), kApart, quick) &&
         ok;
  }
  return ok ? 0 : 1;
}
