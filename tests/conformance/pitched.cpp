// SPDX-License-Identifier: MIT
// Pitched and 3-D memory: the pitch for each width, element and height, and what an allocation
// is said to be. Each width is asked for twice, since custash serves from the second time on.
#include "tests/conformance/cases.hpp"

#include <vector>

namespace conformance {
namespace {

const auto alloc_pitch = CU(cuMemAllocPitch_v2, cuMemAllocPitch);
const auto free_it = CU(cuMemFree_v2, cuMemFree);
const auto range = CU(cuMemGetAddressRange_v2, cuMemGetAddressRange);

constexpr int kRounds = 3;

void say_block(CUdeviceptr p, std::size_t inside) {
  CUdeviceptr base = 0;
  std::size_t size = 0;
  SAY(range(&base, &size, p + inside));
  SAY(base == p);
  SAY(size);
  SAY(p % 512);
  cudaPointerAttributes told{};
  SAY(cudaPointerGetAttributes(&told, pointer(p + inside)));
  SAY(told.type);
  SAY(told.device);
}

}  // namespace

CASE(pitched_widths) {
  SAY(cudaFree(nullptr));
  for (const std::size_t width : {std::size_t{1},
                                  std::size_t{31},
                                  std::size_t{32},
                                  std::size_t{511},
                                  std::size_t{512},
                                  std::size_t{513},
                                  std::size_t{1920},
                                  std::size_t{4096},
                                  std::size_t{70000},
                                  kMiB - 1,
                                  3 * kMiB}) {
    for (int round = 0; round < kRounds; ++round) {
      for (const unsigned element : {4U, 8U, 16U}) {
        CUdeviceptr p = 0;
        std::size_t pitch = 0;
        SAY(alloc_pitch(&p, &pitch, width, std::size_t{5}, element));
        SAY(pitch);
        say_block(p, 4 * pitch + width - 1);
        SAY(free_it(p));
      }
    }
  }
}

CASE(pitched_heights) {
  SAY(cudaFree(nullptr));
  for (const std::size_t width : {100, 1000, 70000}) {
    for (const std::size_t height : {1, 2, 3, 7, 64, 1000}) {
      CUdeviceptr p = 0;
      std::size_t pitch = 0;
      SAY(alloc_pitch(&p, &pitch, width, height, 4U));
      SAY(pitch);
      say_block(p, 0);
      SAY(free_it(p));
      SAY(free_it(p));
    }
  }
}

CASE(pitched_codes) {
  SAY(cudaFree(nullptr));
  for (int round = 0; round < kRounds; ++round) {
    CUdeviceptr p = 0;
    std::size_t pitch = 0;
    SAY(alloc_pitch(&p, &pitch, std::size_t{100}, std::size_t{7}, 4U));
    SAY(free_it(p));
    p = 7;
    pitch = 9;
    SAY(alloc_pitch(&p, &pitch, std::size_t{100}, std::size_t{0}, 4U));
    SAY(alloc_pitch(&p, &pitch, std::size_t{0}, std::size_t{7}, 4U));
    SAY(alloc_pitch(&p, &pitch, std::size_t{100}, std::size_t{7}, 3U));
    SAY(alloc_pitch(&p, &pitch, std::size_t{100}, std::size_t{7}, 0U));
    SAY(alloc_pitch(static_cast<CUdeviceptr*>(nullptr), &pitch, 100, std::size_t{7}, 4U));
    SAY(alloc_pitch(&p, static_cast<std::size_t*>(nullptr), 100, std::size_t{7}, 4U));
    SAY(alloc_pitch(&p, &pitch, ~std::size_t{0}, std::size_t{1}, 4U));
    SAY(alloc_pitch(&p, &pitch, std::size_t{100}, kTooLarge, 4U));
    SAY(alloc_pitch(&p, &pitch, std::size_t{100}, ~std::size_t{0}, 4U));
    SAY(p);
    SAY(pitch);
    void* q = &q;
    SAY(cudaMallocPitch(&q, &pitch, 100, kTooLarge));
    SAY(q == nullptr);
    SAY(cudaGetLastError());
    SAY(cudaMallocPitch(&q, &pitch, 0, 7));
    SAY(cudaMallocPitch(&q, nullptr, 100, 7));
    SAY(cudaGetLastError());
  }
}

// Rows copied in, filled and read back, with the bytes between rows untouched.
CASE(pitched_work) {
  SAY(cudaFree(nullptr));
  constexpr std::size_t kWidth = 1000;
  constexpr std::size_t kHeight = 33;
  for (int round = 0; round < kRounds; ++round) {
    void* p = nullptr;
    std::size_t pitch = 0;
    SAY(cudaMallocPitch(&p, &pitch, kWidth, kHeight));
    SAY(pitch);
    std::vector<unsigned char> rows(kWidth * kHeight, static_cast<unsigned char>(3 + round));
    std::vector<unsigned char> back(kWidth * kHeight, 0);
    SAY(cudaMemset(p, 9, pitch * kHeight));
    SAY(cudaMemcpy2D(p, pitch, rows.data(), kWidth, kWidth, kHeight, cudaMemcpyHostToDevice));
    SAY(cudaMemset2D(at(p, 5 * pitch), pitch, 77, 10, 2));
    SAY(cudaMemcpy2D(back.data(), kWidth, p, pitch, kWidth, kHeight, cudaMemcpyDeviceToHost));
    long long wrong = 0;
    for (std::size_t i = 0; i < back.size(); ++i) {
      const bool filled = (i / kWidth == 5 || i / kWidth == 6) && i % kWidth < 10;
      wrong += back[i] != (filled ? 77 : 3 + round);
    }
    SAY(wrong);
    unsigned char between = 0;
    SAY(cudaMemcpy(&between, at(p, pitch - 1), 1, cudaMemcpyDeviceToHost));
    SAY(between);
    SAY(cudaFree(p));
  }
}

CASE(pitched_cubes) {
  SAY(cudaFree(nullptr));
  for (int round = 0; round < kRounds; ++round) {
    for (const cudaExtent extent :
         {cudaExtent{100, 5, 3}, cudaExtent{513, 1, 1}, cudaExtent{70000, 2, 9}}) {
      cudaPitchedPtr cube{};
      SAY(cudaMalloc3D(&cube, extent));
      SAY(cube.pitch);
      SAY(cube.xsize);
      SAY(cube.ysize);
      say_block(address(cube.ptr), 0);
      SAY(cudaMemset(cube.ptr, round, cube.pitch * extent.height * extent.depth));
      SAY(cudaFree(cube.ptr));
      SAY(cudaFree(cube.ptr));
    }
    cudaPitchedPtr cube{};
    SAY(cudaMalloc3D(&cube, cudaExtent{0, 5, 3}));
    SAY(cudaMalloc3D(&cube, cudaExtent{100, 0, 3}));
    SAY(cudaMalloc3D(&cube, cudaExtent{100, 5, 0}));
    SAY(cudaGetLastError());
  }
}

// An allocation between two kernels of a capture: unsafe calls are refused by its mode.
CASE(pitched_in_captures) {
  SAY(cudaFree(nullptr));
  CUdeviceptr p = 0;
  std::size_t pitch = 0;
  SAY(alloc_pitch(&p, &pitch, std::size_t{100}, std::size_t{7}, 4U));
  SAY(free_it(p));
  const Stream stream;
  SAY(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  SAY(alloc_pitch(&p, &pitch, std::size_t{100}, std::size_t{7}, 4U));
  SAY(pitch);
  cudaGraph_t graph = nullptr;
  SAY(cudaStreamEndCapture(stream, &graph));
  SAY(cudaGraphDestroy(graph));
  SAY(cudaMemset2D(pointer(p), pitch, 1, 100, 7));
  SAY(free_it(p));
}

}  // namespace conformance
