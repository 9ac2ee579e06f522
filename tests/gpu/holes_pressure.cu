// SPDX-License-Identifier: MIT
// A full device: allocations between two kernels that need each other, and beside ordinary
// ones; frees on a stream of another context. Right bare, and must be right under any
// allocator. Lines "info" measure and are never wrong. Every kernel that waits gives up after
// five seconds, sooner than custash does: run it under custash with CUSTASH_CONF=patience:1,
// and once more with backing:driver,patience:1; else such lines are info.
#include "holes_bed.cuh"

#include <cstdlib>
#include <cstring>

#include <dlfcn.h>

namespace gpu {

constexpr unsigned long long kOrdinaryNs = 300'000'000;

static bool gives_up_in_time() {
  const char* conf = std::getenv("CUSTASH_CONF");
  return dlsym(RTLD_DEFAULT, "custash_reserved_bytes") == nullptr ||
         (conf != nullptr && std::strstr(conf, "patience:1") != nullptr);
}

// An allocation while a kernel waits for one that comes afterwards: that one must be reached.
static void between_pair(
    HolesBed& bed, Report& report, const char* name, std::size_t bytes, bool in_vain) {
  void* q = nullptr;
  const double start = now_us();
  const cudaError_t code = cudaMalloc(&q, bytes);
  const double took = now_us() - start;
  (void)cudaGetLastError();
  const bool seen = bed.end_pair();
  if (in_vain && !gives_up_in_time())
    std::printf(
        "info %s seen=%d code=%d us=%.0f\n", name, seen ? 1 : 0, static_cast<int>(code), took);
  else
    report.check(
        seen, name, "seen=%d code=%d us=%.0f", seen ? 1 : 0, static_cast<int>(code), took);
  if (code == cudaSuccess) CUDA_OK(cudaFree(q));
}

// Freed in the order of a stream whose own work ends: younger work is not waited for.
static void streamed(HolesBed& bed, Report& report) {
  const std::size_t much = free_memory() / 10 * 6;
  void* p = nullptr;
  bed.begin_pair();
  CUDA_OK(cudaMallocAsync(&p, much, bed.s));
  spin(bed.s, kLateNs);
  CUDA_OK(cudaFreeAsync(p, bed.s));
  wait_flag<<<1, 1, 0, bed.t>>>(bed.flag, bed.outcome);
  between_pair(bed, report, "pressure_after_stream_ordered_free", much, false);
}

// The kernel that waits is that stream's own: bare is out of memory at once.
static void streamed_in_vain(HolesBed& bed, Report& report) {
  const std::size_t much = free_memory() / 10 * 6;
  void* p = nullptr;
  bed.begin_pair();
  CUDA_OK(cudaMallocAsync(&p, much, bed.s));
  wait_flag<<<1, 1, 0, bed.s>>>(bed.flag, bed.outcome);
  CUDA_OK(cudaFreeAsync(p, bed.s));
  between_pair(bed, report, "pressure_behind_a_waiting_stream", much, true);
}

// What is cached is too small and must go back to the driver for a larger block to fit.
static void plain(HolesBed& bed, Report& report) {
  const std::size_t free = free_memory();
  const std::size_t smaller = free / 2;
  const std::size_t larger = free / 10 * 7;
  CUDA_OK(cudaFree(device_memory(smaller)));
  bed.begin_pair();
  wait_flag<<<1, 1, 0, bed.t>>>(bed.flag, bed.outcome);
  between_pair(bed, report, "pressure_on_plain_memory", larger, true);
  void* q = nullptr;
  cudaError_t code = cudaMalloc(&q, larger);
  report.check(
      code == cudaSuccess, "memory_is_there_afterwards", "code=%d", static_cast<int>(code));
  if (code == cudaSuccess) CUDA_OK(cudaFree(q));
  (void)cudaGetLastError();
  // Beside ordinary work the allocation succeeds, as bare.
  void* p = device_memory(smaller);
  CUDA_OK(cudaDeviceSynchronize());
  CUDA_OK(cudaFree(p));
  for (int i = 0; i < 8; ++i)
    spin(bed.s, kOrdinaryNs);
  const double start = now_us();
  code = cudaMalloc(&q, larger);
  const double took = now_us() - start;
  const int after = static_cast<int>(cudaStreamQuery(bed.s));
  std::printf("info beside_work us=%.0f stream_after=%d\n", took, after);
  (void)cudaGetLastError();
  // 2.4 s in one stream without an end in between that the host could see: with patience:1 this
  // may be refused, with the default it is not.
  std::printf("info beside_2400_ms_of_work code=%d\n", static_cast<int>(code));
  if (code == cudaSuccess) CUDA_OK(cudaFree(q));
  CUDA_OK(cudaDeviceSynchronize());
  p = device_memory(smaller);
  CUDA_OK(cudaFree(p));
  spin(bed.s, kOrdinaryNs);
  code = cudaMalloc(&q, larger);
  report.check(
      code == cudaSuccess, "memory_beside_300_ms_of_work", "code=%d", static_cast<int>(code));
  if (code == cudaSuccess) CUDA_OK(cudaFree(q));
  (void)cudaGetLastError();
}

// Memory of one context freed on a stream of another: the call waits for nothing, and the next
// owner comes after that stream's work. `writes`: kernels there reach the memory.
static void abroad(HolesBed& bed,
                   Report& report,
                   const char* name,
                   cudaStream_t there,
                   bool writes,
                   void (*enter)(),
                   void (*leave)()) {
  void* p = device_memory(kBlock);
  CUDA_OK(cudaDeviceSynchronize());
  enter();
  spin(there, 10 * kLateNs);
  if (writes) fill(there, p, kBlock, kLate);
  const double start = now_us();
  const cudaError_t freed = cudaFreeAsync(p, there);
  const double took = now_us() - start;
  const bool running = cudaStreamQuery(there) == cudaErrorNotReady;
  (void)cudaGetLastError();
  leave();
  // Bare need not take memory of cudaMalloc here: then it says so and nothing is checked.
  std::printf("info %s code=%d us=%.1f running=%d\n",
              name,
              static_cast<int>(freed),
              took,
              running ? 1 : 0);
  std::vector<void*> taken;
  void* q = take_at(p, kBlock, &taken);
  fill(bed.s, q, kBlock, kNext);
  CUDA_OK(cudaStreamSynchronize(bed.s));
  enter();
  CUDA_OK(cudaStreamSynchronize(there));
  leave();
  const unsigned long long wrong = bed.wrong.in(q, kBlock, kNext);
  report.check(wrong == 0, name, "same=%d wrong=%llu", p == q ? 1 : 0, wrong);
  taken.push_back(q);
  for (void* each : taken)
    CUDA_OK(cudaFree(each));
  if (freed != cudaSuccess) CUDA_OK(cudaFree(p));
}

static void* second_context = nullptr;

static void abroad_here(HolesBed& bed, Report& report) {
  cudaStream_t there = nullptr;
  int code = driver("cuCtxCreate", &second_context, static_cast<void*>(nullptr), 0U, 0);
  if (code == 0)
    code = static_cast<int>(cudaStreamCreateWithFlags(&there, cudaStreamNonBlocking));
  if (code != 0) {
    std::printf("skip: no second context here (%d)\n", code);
    (void)cudaGetLastError();
    CUDA_OK(cudaSetDevice(0));
    return;
  }
  spin(there, 1);  // loads the code there
  CUDA_OK(cudaDeviceSynchronize());
  const auto enter = [] { (void)driver("cuCtxSetCurrent", second_context); };
  const auto leave = [] { CUDA_OK(cudaSetDevice(0)); };
  leave();
  abroad(bed, report, "freed_on_a_stream_of_another_context", there, false, enter, leave);
  enter();
  CUDA_OK(cudaStreamDestroy(there));
  leave();
  (void)driver("cuCtxDestroy", second_context);
}

static void abroad_there(HolesBed& bed, Report& report) {
  int devices = 0;
  CUDA_OK(cudaGetDeviceCount(&devices));
  if (devices < 2) {
    std::printf("skip: freed_on_a_stream_of_another_device needs two GPUs\n");
    return;
  }
  const auto enter = [] { CUDA_OK(cudaSetDevice(1)); };
  const auto leave = [] { CUDA_OK(cudaSetDevice(0)); };
  enter();
  cudaStream_t there = new_stream();
  CUDA_OK(cudaDeviceEnablePeerAccess(0, 0));
  spin(there, 1);
  CUDA_OK(cudaDeviceSynchronize());
  leave();
  abroad(bed, report, "freed_on_a_stream_of_another_device", there, true, enter, leave);
}

static int run() {
  Report report;
  need_devices(1);
  HolesBed bed;
  streamed(bed, report);
  streamed_in_vain(bed, report);
  plain(bed, report);
  abroad_here(bed, report);
  abroad_there(bed, report);
  return report.finish();
}

}  // namespace gpu

int main() {
  return gpu::run();
}
