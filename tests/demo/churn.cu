// SPDX-License-Identifier: MIT
// A plain CUDA program, written for nobody's allocator: again and again it allocates, has a
// kernel fill a stretch of the memory, and frees. Sizes from 777 B to 33 MiB, log-uniform, the
// same in every run. Every 64th stretch is copied back and checked. Prints one line; exits 1
// when a word was wrong.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

constexpr double kSmallest = 777.0;
constexpr double kLargest = 33.0 * 1024 * 1024;
constexpr std::size_t kMostWords = 8192;  // of a stretch
constexpr int kCheckEvery = 64;

void require(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "churn: %s: %s\n", what, cudaGetErrorString(error));
  std::exit(2);
}

// splitmix64: the same numbers everywhere, unlike the standard library's distributions.
unsigned long long next_random(unsigned long long* state) {
  unsigned long long z = *state += 0x9e3779b97f4a7c15ULL;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

double next_unit(unsigned long long* state) {
  return static_cast<double>(next_random(state) >> 11) * 0x1.0p-53;
}

unsigned expected(unsigned seed, std::size_t index) {
  return seed + static_cast<unsigned>(index) * 2654435761u;
}

int parse_iterations(int count, char** arguments) {
  int iterations = 16000;
  for (int i = 1; i < count; ++i) {
    if (std::strcmp(arguments[i], "--iterations") == 0 && i + 1 < count) {
      iterations = std::atoi(arguments[++i]);
    } else {
      std::fprintf(stderr, "usage: %s [--iterations N]\n", arguments[0]);
      std::exit(2);
    }
  }
  return iterations;
}

}  // namespace

__global__ void churn_fill(unsigned* words, unsigned long long count, unsigned seed) {
  const unsigned long long stride = static_cast<unsigned long long>(gridDim.x) * blockDim.x;
  unsigned long long i = static_cast<unsigned long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (; i < count; i += stride) {
    words[i] = seed + static_cast<unsigned>(i) * 2654435761u;
  }
}

int main(int count, char** arguments) {
  const int iterations = parse_iterations(count, arguments);
  std::vector<unsigned> back(kMostWords);
  unsigned long long random = 20240229;

  // The context and the module are made before the clock starts.
  unsigned* warm = nullptr;
  require(cudaMalloc(&warm, 4096), "cudaMalloc");
  churn_fill<<<1, 32>>>(warm, 32, 0);
  require(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  require(cudaFree(warm), "cudaFree");

  long long checked = 0;
  long long wrong = 0;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < iterations; ++i) {
    const double size = kSmallest * std::pow(kLargest / kSmallest, next_unit(&random));
    const auto bytes = static_cast<std::size_t>(size);
    const std::size_t words = bytes / sizeof(unsigned);
    const std::size_t stretch = words < kMostWords ? words : kMostWords;
    const std::size_t offset = next_random(&random) % (words - stretch + 1);
    const auto seed = static_cast<unsigned>(next_random(&random));

    unsigned* memory = nullptr;
    require(cudaMalloc(&memory, bytes), "cudaMalloc");
    churn_fill<<<8, 256>>>(memory + offset, stretch, seed);
    require(cudaGetLastError(), "launch");
    if (i % kCheckEvery == 0) {
      require(
          cudaMemcpy(
              back.data(), memory + offset, stretch * sizeof(unsigned), cudaMemcpyDeviceToHost),
          "cudaMemcpy");
      for (std::size_t word = 0; word < stretch; ++word) {
        if (back[word] != expected(seed, word)) ++wrong;
      }
      ++checked;
    }
    require(cudaFree(memory), "cudaFree");
  }
  require(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  const std::chrono::duration<double, std::micro> took =
      std::chrono::steady_clock::now() - start;

  std::printf("churn: %d iterations, %.1f ms, %.2f us each, checked %lld, wrong %lld\n",
              iterations,
              took.count() / 1000,
              iterations > 0 ? took.count() / iterations : 0.0,
              checked,
              wrong);
  return wrong > 0 ? 1 : 0;
}
