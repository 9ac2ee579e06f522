// SPDX-License-Identifier: MIT
// What the simulated driver takes for granted and cuda.h leaves open: each line "fact NAME k=v"
// is an answer of this driver, for tests/sim to be held against. Bare; nothing here is right or
// wrong. Every kernel ends by itself within 2 seconds.
//
//   driver_facts [--quick]
#include "driver_calls.cuh"
#include "kernels.cuh"

namespace gpu {

constexpr unsigned long long kLong = 60'000'000;
constexpr std::size_t kBlock = 4 * kMiB;

template <typename Call>
static void timed_beside(const char* name, cudaStream_t busy, Call call) {
  const double start = now_us();
  const int code = call();
  const double took = now_us() - start;
  std::printf("fact %s code=%d us=%.0f still_running=%d\n",
              name,
              code,
              took,
              cudaStreamQuery(busy) == cudaErrorNotReady ? 1 : 0);
  std::fflush(stdout);
}

template <typename Call>
static void timed(const char* name, cudaStream_t busy, Call call) {
  timed_beside(name, busy, call);
  CUDA_OK(cudaDeviceSynchronize());
}

// How many launches a stream takes behind a kernel that runs, until one takes over 10 ms.
static void queue_depth() {
  cudaStream_t s = new_stream();
  spin(s, 1000);
  CUDA_OK(cudaStreamSynchronize(s));
  for (const bool others : {false, true}) {
    spin(s, 2'000'000'000);
    cudaStream_t t = others ? new_stream() : s;
    int count = 0;
    double took = 0;
    while (took < 10'000 && count < 100'000 && cudaStreamQuery(s) == cudaErrorNotReady) {
      const double start = now_us();
      spin(count % 2 == 0 ? s : t, 100);
      took = now_us() - start;
      ++count;
    }
    std::printf(
        "fact queue_depth streams=%d launches=%d last_us=%.0f\n", others ? 2 : 1, count, took);
    CUDA_OK(cudaDeviceSynchronize());
  }
}

static void plain_free_on_a_stream() {
  cudaStream_t s = new_stream();
  const std::size_t before = free_memory();
  std::size_t under = 0;
  void* const p = device_memory(256 * kMiB);
  spin(s, kLong);
  timed("free_async_of_plain_memory", s, [&] {
    const int code = cudaFreeAsync(p, s);
    under = free_memory();
    return code;
  });
  (void)cudaGetLastError();
  const std::size_t after = free_memory();
  std::printf("fact free_async_of_plain_memory_gives_back while_running=%d after=%d\n",
              under >= before ? 1 : 0,
              after >= before ? 1 : 0);
}

// A kernel of device 1 writes memory of device 0; then its access goes. It may fault, and
// nothing more can be asked.
static void peer_access_taken_away() {
  int devices = 0;
  int can = 0;
  CUDA_OK(cudaGetDeviceCount(&devices));
  if (devices > 1) CUDA_OK(cudaDeviceCanAccessPeer(&can, 1, 0));
  if (can == 0) return (void)std::printf("skip: no peers\n");
  void* p = device_memory(kBlock);
  CUDA_OK(cudaSetDevice(1));
  CUDA_OK(cudaDeviceEnablePeerAccess(0, 0));
  cudaStream_t s = new_stream();
  fill(s, p, kBlock, 1);
  CUDA_OK(cudaDeviceSynchronize());
  fill(s, p, kBlock, 2, kLong);
  timed_beside("disable_peer_access", s, [] {
    return static_cast<int>(cudaDeviceDisablePeerAccess(0));
  });
  std::printf("fact disable_peer_access_under_a_kernel code=%d\n",
              static_cast<int>(cudaDeviceSynchronize()));
}

static void green_context() {
  void* green = nullptr;
  CUstream there = nullptr;
  int code = make_green(&green, &there);
  if (code != 0) return (void)std::printf("skip: no green contexts here (%d)\n", code);
  CUcontext inside = nullptr;
  CUcontext before = nullptr;
  (void)driver("cuCtxFromGreenCtx", &inside, green);
  (void)driver("cuCtxGetCurrent", &before);
  cudaStream_t blocking = nullptr;
  CUDA_OK(cudaStreamCreate(&blocking));
  spin(there, 1000);
  spin(blocking, 1000);
  CUDA_OK(cudaDeviceSynchronize());
  // Does the green context's default stream wait for blocking streams of the primary?
  void* p = device_memory(512);
  spin(blocking, kLong);
  (void)driver("cuCtxSetCurrent", inside);
  code = driver("cuMemsetD8Async",
                reinterpret_cast<CUdeviceptr>(p),
                1,
                std::size_t{512},
                CUstream{nullptr});
  const double start = now_us();
  const int waited = driver("cuStreamSynchronize", CUstream{nullptr});
  const double took = now_us() - start;
  (void)driver("cuCtxSetCurrent", before);
  std::printf("fact green_default_stream code=%d waited=%d us=%.0f blocking_still_running=%d\n",
              code,
              waited,
              took,
              cudaStreamQuery(blocking) == cudaErrorNotReady ? 1 : 0);
  CUDA_OK(cudaDeviceSynchronize());
  // Does its end wait for its work? The stream leaks, as cuda.h says.
  cudaStream_t mine = new_stream();
  spin(mine, 1000);
  CUDA_OK(cudaDeviceSynchronize());
  spin(there, kLong);
  spin(mine, kLong);
  timed("green_destroy", mine, [&] { return driver("cuGreenCtxDestroy", green); });
}

// CUDA 13's form takes a context. Null stands for the current one, if there is one.
static void synchronize_a_context() {
  if (CUDART_VERSION < 13000) return;
  CUcontext current = nullptr;
  CUDA_OK(cudaFree(nullptr));
  (void)driver("cuCtxGetCurrent", &current);
  const int named = driver("cuCtxSynchronize", current);
  const int here = driver("cuCtxSynchronize", CUcontext{nullptr});
  (void)driver("cuCtxSetCurrent", CUcontext{nullptr});
  const int nowhere = driver("cuCtxSynchronize", CUcontext{nullptr});
  (void)driver("cuCtxSetCurrent", current);
  std::printf(
      "fact synchronize_a_context named=%d current=%d without=%d\n", named, here, nowhere);
}

// Codes of arrays and of memory of other interfaces, and whether an end waits for the device.
static void arrays() {
  CUDA_OK(cudaFree(nullptr));
  cudaStream_t s = new_stream();
  CUDA_ARRAY3D_DESCRIPTOR what{};
  what.Width = what.Height = 64;
  what.Format = CU_AD_FORMAT_FLOAT;
  what.NumChannels = 1;
  const auto code_of = [&](const char* name, CUDA_ARRAY3D_DESCRIPTOR described) {
    CUarray made = nullptr;
    const CUDA_ARRAY3D_DESCRIPTOR* const told = &described;
    std::printf("fact array_%s code=%d\n", name, driver("cuArray3DCreate_v2", &made, told));
    if (made != nullptr) (void)driver("cuArrayDestroy", made);
  };
  auto other = what;
  other.NumChannels = 3;
  code_of("of_three_channels", other);
  other = what;
  other.Width = 0;
  code_of("without_width", other);
  other = what;
  other.Width = 1 << 18;
  code_of("too_wide", other);
  other = what;
  other.Width = other.Height = other.Depth = 16384;
  code_of("larger_than_the_device", other);
  const CUDA_ARRAY3D_DESCRIPTOR* const told = &what;
  CUarray array = nullptr;
  CUmipmappedArray mipmap = nullptr;
  CUexternalMemory external = nullptr;
  const CUDA_EXTERNAL_MEMORY_HANDLE_DESC nothing{};
  (void)driver("cuArray3DCreate_v2", &array, told);
  std::printf("fact mipmap_levels none=%d many=%d\n",
              driver("cuMipmappedArrayCreate", &mipmap, told, 0U),
              driver("cuMipmappedArrayCreate", &mipmap, told, 4'000'000'000U));
  std::printf("fact external_memory_of_nothing code=%d\n",
              driver("cuImportExternalMemory", &external, &nothing));
  spin(s, 1000);
  CUDA_OK(cudaDeviceSynchronize());
  spin(s, kLong);
  timed("array_destroy", s, [&] { return driver("cuArrayDestroy", array); });
  std::printf("fact array_destroyed_twice code=%d\n", driver("cuArrayDestroy", array));
  spin(s, kLong);
  timed("mipmap_destroy", s, [&] { return driver("cuMipmappedArrayDestroy", mipmap); });
}

static int run() {
  need_devices(1);
  arrays();
  synchronize_a_context();
  queue_depth();
  plain_free_on_a_stream();
  green_context();
  peer_access_taken_away();  // last
  return 0;
}

}  // namespace gpu

int main() {
  return gpu::run();
}
