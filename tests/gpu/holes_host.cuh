// SPDX-License-Identifier: MIT
// What the host reads right after a free, by each door to host memory.
#pragma once

#include "holes_bed.cuh"

#include <functional>

#include <sys/wait.h>
#include <unistd.h>

namespace gpu {

// A kernel writes host memory late; bare, cudaFree of something else waits for it.
inline bool host_sees(const std::function<Word*(Word**)>& door) {
  Word* device = nullptr;
  Word* host = door(&device);
  *host = 0;
  cudaStream_t stream = new_stream();
  WrongWords wrong;
  warm_up(stream, wrong);
  void* p = device_memory(kBlock);
  fill(stream, device, 4 * kKiB, kNext, kLateNs);
  CUDA_OK(cudaFree(p));
  return *static_cast<volatile Word*>(host) == kNext;
}

inline Word* pinned(unsigned flags) {
  void* host = nullptr;
  CUDA_OK(cudaHostAlloc(&host, 4 * kKiB, flags));
  return static_cast<Word*>(host);
}

struct Door {
  const char* name;
  std::function<Word*(Word**)> open;  // gives the host's address, and stores the device's
};

// In a child, since one door opens them all.
inline void check_door(Report& report, const Door& door) {
  const pid_t child = fork();
  if (child == 0) {
    need_devices(1);
    const bool sees = host_sees(door.open);
    std::fflush(stdout);
    _exit(sees ? 0 : 1);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) return;
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  if (code != kSkip) report.check(code == 0, door.name, "exit=%d", code);
}

inline void host_reach(Report& report) {
  const Door doors[] = {
      {"host_reach_device_pointer",
       [](Word** device) {
         Word* host = pinned(cudaHostAllocDefault);
         void* told = nullptr;
         CUDA_OK(cudaHostGetDevicePointer(&told, host, 0));
         *device = static_cast<Word*>(told);
         return host;
       }},
      {"host_reach_attributes",
       [](Word** device) {
         Word* host = pinned(cudaHostAllocDefault);
         cudaPointerAttributes told{};
         CUDA_OK(cudaPointerGetAttributes(&told, host));
         *device = static_cast<Word*>(told.devicePointer);
         return host;
       }},
#ifdef SHARED_RUNTIME
      {"host_reach_mapped_flag",
       [](Word** device) { return *device = pinned(cudaHostAllocMapped); }},
#endif
  };
  for (const Door& door : doors)
    check_door(report, door);
}

}  // namespace gpu
