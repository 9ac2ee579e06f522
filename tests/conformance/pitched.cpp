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
    SAY_WITH_LAST(q == nullptr);
    SAY(cudaMallocPitch(&q, &pitch, 0, 7));
    SAY_WITH_LAST(cudaMallocPitch(&q, nullptr, 100, 7));
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
    SAY_WITH_LAST(cudaMalloc3D(&cube, cudaExtent{100, 5, 0}));
  }
}

// In through one block, over to another, and out of it; from and to the middle of a volume.
CASE(pitched_copies_in_3d) {
  SAY(cudaFree(nullptr));
  const auto copy_3d = CU(cuMemcpy3D_v2, cuMemcpy3D);
  constexpr cudaExtent kExtent{300, 7, 5};
  constexpr std::size_t kBytes = kExtent.width * kExtent.height * kExtent.depth;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<unsigned char> in(kBytes);
    for (std::size_t i = 0; i < kBytes; ++i)
      in[i] = static_cast<unsigned char>(i * 7 + static_cast<std::size_t>(round));
    std::vector<unsigned char> out(kBytes, 0);
    cudaPitchedPtr cubes[2] = {};
    for (cudaPitchedPtr& cube : cubes) {
      SAY(cudaMalloc3D(&cube, kExtent));
      SAY(cudaMemset(cube.ptr, 9, cube.pitch * kExtent.height * kExtent.depth));
    }
    CUDA_MEMCPY3D whole{};
    whole.srcMemoryType = CU_MEMORYTYPE_HOST;
    whole.srcHost = in.data();
    whole.srcPitch = kExtent.width;
    whole.srcHeight = whole.dstHeight = kExtent.height;
    whole.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    whole.dstDevice = address(cubes[0].ptr);
    whole.dstPitch = cubes[0].pitch;
    whole.WidthInBytes = kExtent.width;
    whole.Height = kExtent.height;
    whole.Depth = kExtent.depth;
    SAY(copy_3d(&whole));
    CUDA_MEMCPY3D part = whole;  // all but the outermost layer
    part.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    part.srcDevice = address(cubes[0].ptr);
    part.srcPitch = cubes[0].pitch;
    part.dstDevice = address(cubes[1].ptr);
    part.dstPitch = cubes[1].pitch;
    part.srcXInBytes = part.srcY = part.srcZ = 1;
    part.dstXInBytes = part.dstY = part.dstZ = 1;
    part.WidthInBytes -= 2;
    part.Height -= 2;
    part.Depth -= 2;
    SAY(copy_3d(&part));
    CUDA_MEMCPY3D back = whole;
    back.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    back.srcDevice = address(cubes[1].ptr);
    back.srcPitch = cubes[1].pitch;
    back.dstMemoryType = CU_MEMORYTYPE_HOST;
    back.dstHost = out.data();
    back.dstPitch = kExtent.width;
    SAY(copy_3d(&back));
    SAY(cudaDeviceSynchronize());
    long long wrong = 0;
    for (std::size_t i = 0; i < kBytes; ++i) {
      const std::size_t x = i % kExtent.width;
      const std::size_t y = i / kExtent.width % kExtent.height;
      const std::size_t z = i / kExtent.width / kExtent.height;
      const bool inside = x > 0 && x + 1 < kExtent.width && y > 0 && y + 1 < kExtent.height &&
                          z > 0 && z + 1 < kExtent.depth;
      wrong += out[i] != (inside ? in[i] : 9);
    }
    SAY(wrong);
    unsigned char between = 0;
    SAY(cudaMemcpy(&between, at(cubes[1].ptr, cubes[1].pitch - 1), 1, cudaMemcpyDeviceToHost));
    SAY(between);
    part.srcPitch = kExtent.width - 3;  // less than its rows
    SAY(copy_3d(&part));
    for (cudaPitchedPtr& cube : cubes)
      SAY(cudaFree(cube.ptr));
  }
}

// The double of the runtime has no such call.
CASE(pitched_copies_of_the_runtime_in_3d) {
  constexpr cudaExtent kExtent{300, 7, 5};
  for (int round = 0; round < kRounds; ++round) {
    std::vector<unsigned char> in(kExtent.width * kExtent.height * kExtent.depth,
                                  static_cast<unsigned char>(5 + round));
    std::vector<unsigned char> out(in.size(), 0);
    cudaPitchedPtr cube{};
    SAY(cudaMalloc3D(&cube, kExtent));
    cudaMemcpy3DParms copy{};
    copy.srcPtr = {in.data(), kExtent.width, kExtent.width, kExtent.height};
    copy.dstPtr = cube;
    copy.extent = kExtent;
    copy.kind = cudaMemcpyHostToDevice;
    SAY(cudaMemcpy3D(&copy));
    copy.dstPtr = {out.data(), kExtent.width, kExtent.width, kExtent.height};
    copy.srcPtr = cube;
    copy.kind = cudaMemcpyDeviceToHost;
    SAY(cudaMemcpy3D(&copy));
    SAY(in == out);
    SAY_WITH_LAST(cudaFree(cube.ptr));
  }
}

// A texture reads the rows of one block after another's; custash's own begin where a texture
// may.
CASE(pitched_textures) {
  constexpr unsigned kWidth = 250;  // texels of a word
  constexpr unsigned kHeight = 9;
  SAY(cudaFree(nullptr));
  CUfunction kernel = nullptr;
  SAY(find_kernel(&kernel, "conformance_fetch"));
  void* out = nullptr;
  SAY(cudaMalloc(&out, 4 * kWidth * kHeight));
  for (int round = 0; round < kRounds; ++round) {
    void* p = nullptr;
    std::size_t pitch = 0;
    SAY(cudaMallocPitch(&p, &pitch, 4 * kWidth, kHeight));
    std::vector<unsigned> rows(kWidth * kHeight);
    for (std::size_t i = 0; i < rows.size(); ++i)
      rows[i] = static_cast<unsigned>(i * 3 + static_cast<std::size_t>(round));
    SAY(cudaMemcpy2D(
        p, pitch, rows.data(), 4 * kWidth, 4 * kWidth, kHeight, cudaMemcpyHostToDevice));
    CUDA_RESOURCE_DESC what{};
    what.resType = CU_RESOURCE_TYPE_PITCH2D;
    what.res.pitch2D = {address(p), CU_AD_FORMAT_UNSIGNED_INT32, 1, kWidth, kHeight, pitch};
    CUDA_TEXTURE_DESC how{};
    how.addressMode[0] = how.addressMode[1] = CU_TR_ADDRESS_MODE_CLAMP;
    how.filterMode = CU_TR_FILTER_MODE_POINT;
    how.flags = CU_TRSF_READ_AS_INTEGER;
    const CUDA_RESOURCE_VIEW_DESC* const no_view = nullptr;
    CUtexObject texture = 0;
    SAY(CU(cuTexObjectCreate, cuTexObjectCreate)(&texture, &what, &how, no_view));
    unsigned width = kWidth;
    unsigned told = static_cast<unsigned>(pitch);
    void* arguments[] = {&texture, &out, &width, &told};
    SAY(CU(cuLaunchKernel, cuLaunchKernel)(
        kernel, 1U, kHeight, 1U, kThreads, 1U, 1U, 0U, nullptr, arguments, nullptr));
    SAY(cudaDeviceSynchronize());
    std::vector<unsigned> seen(rows.size(), ~0U);
    SAY(cudaMemcpy(seen.data(), out, 4 * seen.size(), cudaMemcpyDeviceToHost));
    SAY(seen == rows);
    SAY(CU(cuTexObjectDestroy, cuTexObjectDestroy)(texture));
    what.res.pitch2D.devPtr += 4;  // no texture begins there
    SAY(CU(cuTexObjectCreate, cuTexObjectCreate)(&texture, &what, &how, no_view));
    what.res.pitch2D.devPtr -= 4;
    what.res.pitch2D.pitchInBytes -= 4;
    SAY(CU(cuTexObjectCreate, cuTexObjectCreate)(&texture, &what, &how, no_view));
    SAY(cudaFree(p));
  }
  SAY(cudaFree(out));
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
