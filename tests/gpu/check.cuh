// SPDX-License-Identifier: MIT
// What every GPU program here shares: one line a check ("ok NAME k=v ..." or "FAIL NAME k=v
// ..."), exit 1 when any failed and 77 without a GPU, and a host clock. The programs are
// ordinary CUDA programs, not written for custash: they run bare and preloaded, unchanged. No
// lock: one thread reports.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <cuda_runtime.h>

namespace gpu {

constexpr std::size_t kKiB = std::size_t{1} << 10;
constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::size_t kGiB = std::size_t{1} << 30;
constexpr int kSkip = 77;

// An unexpected code ends the program: what comes after would be noise. _Exit, because other
// threads may be inside CUDA.
[[noreturn]] inline void die(const char* call, cudaError_t code, int line) {
  std::printf("FAIL unexpected_error code=%d name=%s line=%d call=%s\n",
              static_cast<int>(code),
              cudaGetErrorName(code),
              line,
              call);
  std::fflush(stdout);
  std::_Exit(1);
}

#define CUDA_OK(call)                                                         \
  do {                                                                        \
    const cudaError_t cuda_ok_code = (call);                                  \
    if (cuda_ok_code != cudaSuccess) gpu::die(#call, cuda_ok_code, __LINE__); \
  } while (0)

// Only "there is no GPU" is a skip: any other code may be what the test is there to find.
inline void need_devices(int wanted) {
  int found = 0;
  const cudaError_t code = cudaGetDeviceCount(&found);
  if (code != cudaSuccess && code != cudaErrorNoDevice && code != cudaErrorInsufficientDriver) {
    die("cudaGetDeviceCount(&found)", code, __LINE__);
  }
  if (code != cudaSuccess || found < wanted) {
    std::printf("skip: needs %d GPU, found %d (%s)\n", wanted, found, cudaGetErrorName(code));
    std::exit(kSkip);
  }
}

// Of the current device, as the program sees it.
inline std::size_t free_memory() {
  std::size_t free = 0;
  std::size_t total = 0;
  CUDA_OK(cudaMemGetInfo(&free, &total));
  return free;
}

inline double now_us() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::micro>(since).count();
}

inline double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

inline double worst(const std::vector<double>& values) {
  return values.empty() ? 0 : *std::max_element(values.begin(), values.end());
}

inline bool has_flag(int argc, char** argv, const char* flag) {
  return std::any_of(
      argv + 1, argv + argc, [&](char* each) { return !std::strcmp(each, flag); });
}

// The word after `flag`, or `otherwise`.
inline double number_after(int argc, char** argv, const char* flag, double otherwise) {
  for (int i = 1; i + 1 < argc; ++i) {
    if (!std::strcmp(argv[i], flag)) return std::atof(argv[i + 1]);
  }
  return otherwise;
}

class Report {
 public:
  void check(bool good, const std::string& name, const char* format = "", ...)
      __attribute__((format(printf, 4, 5))) {
    ++checks_;
    failed_ += good ? 0 : 1;
    std::printf("%s %s ", good ? "ok" : "FAIL", name.c_str());
    va_list args;
    va_start(args, format);
    std::vprintf(format, args);
    va_end(args);
    std::printf("\n");
    std::fflush(stdout);
  }

  // Prints the last line and gives main's result.
  int finish() const {
    std::printf("done checks=%d failed=%d\n", checks_, failed_);
    return failed_ == 0 ? 0 : 1;
  }

 private:
  int checks_ = 0;
  int failed_ = 0;
};

}  // namespace gpu
