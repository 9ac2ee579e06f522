// SPDX-License-Identifier: MIT
// Two kernels on two non-blocking streams that need each other: the first spins until the
// second has run. With an allocation between their launches both finish on the driver, and must
// under any allocator: one that makes the second wait for "everything so far" hangs them. The
// first kernel gives up after five seconds, which is the failure; no GPU is ever left hanging.
#include "kernels.cuh"

#include <functional>
#include <memory>

namespace gpu {

// Also writes the memory that was allocated between the launches, if any on the device.
static __global__ void set_kernel(volatile Word* flag, Word* p) {
  if (p != nullptr) *p = 1;
  __threadfence();
  *flag = 1;
}

struct Case {
  const char* name;
  std::function<void()> before;    // before the first launch, streams idle
  std::function<Word*()> between;  // between the launches; device memory or null
  std::function<void(Word*)> after;
};

struct Streams {
  cudaStream_t first = new_stream();
  cudaStream_t second = new_stream();
  Word* flag = static_cast<Word*>(device_memory(512));
  Word* outcome = static_cast<Word*>(device_memory(512));
};

// True when both kernels ran to the end.
static bool both_finish(const Streams& on, const Case& each, double* took_us) {
  Word outcome = 0;
  CUDA_OK(cudaMemsetAsync(on.flag, 0, sizeof(Word), on.first));
  CUDA_OK(cudaMemsetAsync(on.outcome, 0, sizeof(Word), on.first));
  CUDA_OK(cudaStreamSynchronize(on.first));
  if (each.before) each.before();

  const double start = now_us();
  wait_flag<<<1, 1, 0, on.first>>>(on.flag, on.outcome);
  CUDA_OK(cudaGetLastError());
  Word* p = each.between();
  set_kernel<<<1, 1, 0, on.second>>>(on.flag, p);
  CUDA_OK(cudaGetLastError());
  CUDA_OK(cudaStreamSynchronize(on.second));
  CUDA_OK(cudaStreamSynchronize(on.first));
  *took_us = now_us() - start;

  CUDA_OK(cudaMemcpy(&outcome, on.outcome, sizeof(Word), cudaMemcpyDeviceToHost));
  each.after(p);
  return outcome == kSeen;
}

static Word* words(std::size_t bytes) {
  return static_cast<Word*>(device_memory(bytes));
}

static std::vector<Case> cases(const Streams& on) {
  const auto give = [](Word* p) { CUDA_OK(cudaFree(p)); };
  const auto take = [](std::size_t bytes) { return [bytes] { return words(bytes); }; };
  const auto free_idle = [](std::size_t bytes) {
    return [bytes] { CUDA_OK(cudaFree(device_memory(bytes))); };
  };
  // Freed with work in flight on a stream: a debt that the second kernel may have to pay, but
  // for that work alone, not for the first kernel, which was launched after the free.
  const auto free_in_flight = [](cudaStream_t stream, std::size_t bytes) {
    return [=] {
      void* p = device_memory(bytes);
      fill(stream, p, bytes, 7, 3'000'000);
      CUDA_OK(cudaFree(p));
    };
  };
  cudaStream_t first = on.first;
  cudaStream_t second = on.second;
  const auto host = std::make_shared<void*>(nullptr);
  // Plain memory freed on a stream between the kernels, and memory of that size for the second.
  const auto plain = std::make_shared<void*>(nullptr);
  const auto hold = [plain](std::size_t bytes) {
    return [=] {
      *plain = device_memory(bytes);
      fill(cudaStreamLegacy, *plain, bytes, 7, 0);
      CUDA_OK(cudaDeviceSynchronize());
    };
  };
  const auto free_on = [plain](cudaStream_t stream, std::size_t bytes) {
    return [=] {
      CUDA_OK(cudaFreeAsync(*plain, stream));
      return bytes == 0 ? nullptr : words(bytes);
    };
  };
  const auto nothing = [](Word*) {};
  return {
      {"free_async_4KiB_legacy", hold(4 * kKiB), free_on(cudaStreamLegacy, 0), nothing},
      {"free_async_8MiB_legacy", hold(8 * kMiB), free_on(cudaStreamLegacy, 0), nothing},
      {"free_async_4KiB_legacy_malloc",
       hold(4 * kKiB),
       free_on(cudaStreamLegacy, 4 * kKiB),
       give},
      {"free_async_8MiB_legacy_malloc",
       hold(8 * kMiB),
       free_on(cudaStreamLegacy, 8 * kMiB),
       give},
      {"free_async_8MiB_per_thread_malloc",
       hold(8 * kMiB),
       free_on(cudaStreamPerThread, 8 * kMiB),
       give},
      {"free_async_8MiB_first_malloc", hold(8 * kMiB), free_on(first, 8 * kMiB), give},
      {"nothing", nullptr, [] { return nullptr; }, [](Word*) {}},
      {"malloc_512", nullptr, take(512), give},
      {"malloc_8MiB_new", nullptr, take(8 * kMiB), give},
      {"malloc_8MiB_just_freed", free_idle(8 * kMiB), take(8 * kMiB), give},
      {"malloc_512_freed_in_flight", free_in_flight(first, 512), take(512), give},
      {"malloc_8MiB_freed_in_flight", free_in_flight(first, 8 * kMiB), take(8 * kMiB), give},
      {"malloc_8MiB_freed_in_flight_second",
       free_in_flight(second, 8 * kMiB),
       take(8 * kMiB),
       give},
      {"malloc_8MiB_freed_in_flight_default",
       free_in_flight(cudaStreamLegacy, 8 * kMiB),
       take(8 * kMiB),
       give},
      {"malloc_2GiB", nullptr, take(2 * kGiB), give},
      {"malloc_host_16MiB",
       nullptr,
       [host] {
         CUDA_OK(cudaMallocHost(host.get(), 16 * kMiB));
         return static_cast<Word*>(nullptr);  // not device memory: not for the kernel
       },
       [host](Word*) { CUDA_OK(cudaFreeHost(*host)); }},
      {"malloc_async_8MiB",
       nullptr,
       [second] {
         void* p = nullptr;
         CUDA_OK(cudaMallocAsync(&p, 8 * kMiB, second));
         return static_cast<Word*>(p);
       },
       [second](Word* p) { CUDA_OK(cudaFreeAsync(p, second)); }},
  };
}

static int run(int argc, char** argv) {
  need_devices(1);
  const int rounds = has_flag(argc, argv, "--quick") ? 3 : 10;
  WrongWords wrong;
  const Streams on;
  warm_up(on.first, wrong);
  warm_up(on.second, wrong);
  // Warm, in the order that lets both finish.
  CUDA_OK(cudaMemset(on.flag, 0, sizeof(Word)));
  set_kernel<<<1, 1, 0, on.second>>>(on.flag, nullptr);
  CUDA_OK(cudaDeviceSynchronize());
  wait_flag<<<1, 1, 0, on.first>>>(on.flag, on.outcome);
  CUDA_OK(cudaDeviceSynchronize());

  Report report;
  for (const Case& each : cases(on)) {
    std::vector<double> took_us;
    int finished = 0;
    for (int i = 0; i < rounds && finished == i; ++i) {  // one failure, five seconds, is enough
      double us = 0;
      finished += both_finish(on, each, &us) ? 1 : 0;
      took_us.push_back(us);
    }
    report.check(finished == rounds,
                 std::string("mutual_") + each.name,
                 "finished=%d of=%d median_us=%.1f worst_us=%.1f",
                 finished,
                 rounds,
                 median(took_us),
                 worst(took_us));
  }
  return report.finish();
}

}  // namespace gpu

int main(int argc, char** argv) {
  return gpu::run(argc, argv);
}
