// SPDX-License-Identifier: MIT
// Threads that are cancelled (pthread_cancel) while they wait in CUDA: in an allocation on a
// full device, and in a wait for a stream or an event. Each thread must end, cancelled or
// finished, and the process must go on. Prints which it was. A copy to pageable memory is left
// out: a thread that is cancelled there leaves the driver locked for good, without custash too.
//
//   cancel [--quick] [--only CASE]
#include "kernels.cuh"

#include <atomic>

#include <pthread.h>
#include <unistd.h>

namespace gpu {

constexpr unsigned long long kBusyNs = 600'000'000;

struct Shared {
  cudaStream_t stream = nullptr;
  cudaEvent_t event = nullptr;
  std::atomic<bool> began{false};
};

using Body = void(Shared&);

static void allocate(Shared& shared) {
  for (int i = 0; i < 20; ++i) {
    void* p = nullptr;
    shared.began = true;
    if (cudaMalloc(&p, 2 * kGiB) == cudaSuccess)
      CUDA_OK(cudaFree(p));
    else
      (void)cudaGetLastError();
    pthread_testcancel();
  }
}

static void wait_for_stream(Shared& shared) {
  shared.began = true;
  (void)cudaStreamSynchronize(shared.stream);
}

static void wait_for_event(Shared& shared) {
  shared.began = true;
  (void)cudaEventSynchronize(shared.event);
}

struct Case {
  const char* name;
  Body* body;
};

constexpr Case kCases[] = {
    {"allocation", allocate}, {"stream", wait_for_stream}, {"event", wait_for_event}};

struct Start {
  Body* body;
  Shared* shared;
};

static void* run_it(void* start) {
  CUDA_OK(cudaSetDevice(0));
  static_cast<Start*>(start)->body(*static_cast<Start*>(start)->shared);
  return nullptr;
}

static void run_case(const Case& each, Report& report) {
  Shared shared;
  shared.stream = new_stream();
  CUDA_OK(
      cudaEventCreateWithFlags(&shared.event, cudaEventBlockingSync | cudaEventDisableTiming));
  std::vector<void*> filling;
  for (std::size_t size = 4 * kGiB; each.body == allocate && size >= 256 * kMiB;) {
    void* p = nullptr;
    if (cudaMalloc(&p, size) == cudaSuccess) {
      filling.push_back(p);
    } else {
      (void)cudaGetLastError();
      size /= 2;
    }
  }
  spin(shared.stream, kBusyNs);
  CUDA_OK(cudaEventRecord(shared.event, shared.stream));
  Start start{each.body, &shared};
  pthread_t thread;
  if (pthread_create(&thread, nullptr, run_it, &start) != 0) std::abort();
  while (!shared.began)
    usleep(1000);
  usleep(100'000);
  pthread_cancel(thread);
  void* result = nullptr;
  pthread_join(thread, &result);
  CUDA_OK(cudaDeviceSynchronize());
  for (void* p : filling)
    CUDA_OK(cudaFree(p));
  void* again = device_memory(64 * kMiB);
  CUDA_OK(cudaFree(again));
  report.check(true, each.name, "%s", result == PTHREAD_CANCELED ? "cancelled" : "finished");
}

static int run(int argc, char** argv) {
  need_devices(1);
  CUDA_OK(cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync));
  Report report;
  for (const Case& each : kCases) {
    bool wanted = true;
    for (int i = 1; i + 1 < argc; ++i)
      if (std::strcmp(argv[i], "--only") == 0)
        wanted = std::strcmp(argv[i + 1], each.name) == 0;
    if (wanted) run_case(each, report);
  }
  return report.finish();
}

}  // namespace gpu

int main(int argc, char** argv) {
  return gpu::run(argc, argv);
}
