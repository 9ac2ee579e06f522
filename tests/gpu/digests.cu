// SPDX-License-Identifier: MIT
// The kernel by which sleep tells contents apart, on this device, against its description in
// C++ (tests/sim/digest.cpp), and how fast it reads.
#include "allocator/sleep/digest_kernel.hpp"
#include "check.cuh"
#include "driver_calls.cuh"
#include "tests/sim/kernels.hpp"

#include <random>

namespace {

constexpr std::size_t kKeys = 3072;
constexpr std::size_t kDigestBytes = 40;

gpu::Report report;

struct Piece {
  std::uint64_t address, bytes;
};

CUfunction load() {
  CUmodule module = nullptr;
  CUfunction kernel = nullptr;
  int code = gpu::driver("cuModuleLoadData", &module, (const void*)custash::kDigestKernel);
  if (code == 0) code = gpu::driver("cuModuleGetFunction", &kernel, module, "custash_digest");
  report.check(code == 0, "kernel_loads", "code=%d", code);
  return kernel;
}

// Lists and keys in pinned memory, as custash has them.
struct Lists {
  explicit Lists(std::size_t count) : count(static_cast<std::uint32_t>(count)) {
    CUDA_OK(cudaMallocHost(&keys, kKeys * 8));
    CUDA_OK(cudaMallocHost(&pieces, count * sizeof(Piece)));
    CUDA_OK(cudaMallocHost(&digests, count * kDigestBytes));
    std::mt19937_64 random(7);
    for (std::size_t i = 0; i < kKeys; ++i)
      keys[i] = random();
    std::memset(digests, 0, count * kDigestBytes);
  }

  void run(CUfunction kernel) {
    void* parameters[] = {&pieces, &digests, &keys, &count};
    const int code = gpu::driver("cuLaunchKernel",
                                 kernel,
                                 std::min(count, 4096u),
                                 1u,
                                 1u,
                                 256u,
                                 1u,
                                 1u,
                                 0u,
                                 (CUstream) nullptr,
                                 (void**)parameters,
                                 (void**)nullptr);
    if (code != 0) report.check(false, "launch", "code=%d", code);
    CUDA_OK(cudaDeviceSynchronize());
  }

  std::uint64_t* keys = nullptr;
  Piece* pieces = nullptr;
  unsigned char* digests = nullptr;
  std::uint32_t count;
};

// Random contents, contents of one value, and such with one byte changed, in pieces of all
// sizes.
void same_as_described(CUfunction kernel) {
  constexpr std::size_t kCount = 400;
  std::mt19937_64 random(42);
  Lists lists(kCount);
  std::vector<std::vector<char>> host(kCount);
  std::vector<char*> device(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    const std::size_t bytes = i % 4 == 0 ? 2 * gpu::kMiB : (random() % 130'000 + 1) * 16;
    host[i].resize(bytes);
    const auto value = static_cast<std::uint32_t>(i % 3 == 0 ? 0 : random());
    for (std::size_t at = 0; at < bytes; at += 4) {
      const auto word = i % 2 == 0 ? static_cast<std::uint32_t>(random()) : value;
      std::memcpy(&host[i][at], &word, 4);
    }
    if (i % 5 == 0) host[i][random() % bytes] ^= 1;
    CUDA_OK(cudaMalloc(&device[i], bytes));
    CUDA_OK(cudaMemcpy(device[i], host[i].data(), bytes, cudaMemcpyHostToDevice));
    lists.pieces[i] = {reinterpret_cast<std::uint64_t>(device[i]), bytes};
  }
  lists.run(kernel);
  const std::vector<unsigned char> found(lists.digests, lists.digests + kCount * kDigestBytes);
  for (std::size_t i = 0; i < kCount; ++i)
    lists.pieces[i].address = reinterpret_cast<std::uint64_t>(host[i].data());
  void* arguments[] = {&lists.pieces, &lists.digests, &lists.keys, &lists.count};
  custash_sim_launch launch{};
  launch.args = arguments;
  custash::sim::digest_kernels[0].body(&launch);
  std::size_t different = 0;
  for (std::size_t i = 0; i < kCount; ++i)
    if (std::memcmp(&found[i * kDigestBytes], lists.digests + i * kDigestBytes, kDigestBytes) !=
        0)
      ++different;
  report.check(
      different == 0, "digests_as_described", "pieces=%zu different=%zu", kCount, different);
  for (char* each : device)
    CUDA_OK(cudaFree(each));
}

void speed(CUfunction kernel, std::size_t bytes) {
  char* memory = nullptr;
  CUDA_OK(cudaMalloc(&memory, bytes));
  CUDA_OK(cudaMemset(memory, 3, bytes));
  Lists lists(bytes / (2 * gpu::kMiB));
  for (std::uint32_t i = 0; i < lists.count; ++i)
    lists.pieces[i] = {reinterpret_cast<std::uint64_t>(memory) + i * 2 * gpu::kMiB,
                       2 * gpu::kMiB};
  double best = 1e18;
  for (int i = 0; i < 5; ++i) {
    const double begin = gpu::now_us();
    lists.run(kernel);
    best = std::min(best, gpu::now_us() - begin);
  }
  report.check(true,
               "digests_speed",
               "gib=%zu ms=%.2f gb_per_s=%.0f",
               bytes / gpu::kGiB,
               best / 1000,
               static_cast<double>(bytes) / best / 1000);
  CUDA_OK(cudaFree(memory));
}

}  // namespace

int main(int argc, char** argv) {
  gpu::need_devices(1);
  CUDA_OK(cudaFree(nullptr));
  CUfunction const kernel = load();
  if (kernel != nullptr) {
    same_as_described(kernel);
    speed(kernel, (gpu::has_flag(argc, argv, "--quick") ? 4 : 32) * gpu::kGiB);
  }
  return report.finish();
}
