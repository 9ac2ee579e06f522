// SPDX-License-Identifier: MIT
// Fills, copies and some forwarded calls that few programs make: codes and contents. What is
// said must be the same bare and preloaded.
#include "tests/conformance/driver/driver.hpp"

namespace {

using namespace semantics;

// What is in memory after each kind of fill and copy; at its end the memory is freed with work
// in flight, and the host reads the last copy at once.
constexpr std::size_t kRow = 64;
constexpr std::size_t kRows = 8;

struct Work {
  CUdeviceptr block = 0;
  CUdeviceptr other = 0;
  unsigned char host[kRow * kRows] = {};

  void tell(const char* what) {
    unsigned sum = 0;
    CUresult result = call("cuCtxSynchronize");
    if (result == CUDA_SUCCESS) {
      result = call("cuMemcpyDtoH_v2", static_cast<void*>(host), block, sizeof host);
    }
    for (std::size_t i = 0; i < sizeof host; ++i)
      sum = sum * 31 + host[i];
    std::printf("%d %s: %u\n", static_cast<int>(result), what, sum);
  }
};

void fills(Work& work) {
  const CUdeviceptr at = work.block;
  const CUstream null = nullptr;
  const auto byte = [](int value) { return static_cast<unsigned char>(value); };
  const auto word = [](int value) { return static_cast<unsigned short>(value); };
  SAY(call("cuMemsetD8_v2", at, byte(1), kRow * kRows));
  SAY(call("cuMemsetD16_v2", at, word(513), kRow));
  SAY(call("cuMemsetD32_v2", at, 67305985U, kRow / 4));
  work.tell("fills");
  SAY(call("cuMemsetD2D8_v2", at, kRow, byte(2), std::size_t{10}, kRows));
  SAY(call("cuMemsetD2D16_v2", at, kRow, word(770), std::size_t{8}, kRows));
  SAY(call("cuMemsetD2D32_v2", at, kRow, 84148994U, std::size_t{2}, kRows));
  work.tell("fills of rows");
  SAY(call("cuMemsetD8Async", at, byte(3), kRow * kRows, null));
  SAY(call("cuMemsetD16Async", at, word(1027), kRow, null));
  SAY(call("cuMemsetD32Async", at, 100992003U, kRow / 4, null));
  SAY(call("cuMemsetD2D8Async", at, kRow, byte(4), std::size_t{10}, kRows, null));
  SAY(call("cuMemsetD2D16Async", at, kRow, word(1284), std::size_t{8}, kRows, null));
  SAY(call("cuMemsetD2D32Async", at, kRow, 117835012U, std::size_t{2}, kRows, null));
  work.tell("fills in the stream's order");
}

void copies(Work& work) {
  const CUstream null = nullptr;
  const void* const from = work.host;
  for (std::size_t i = 0; i < sizeof work.host; ++i)
    work.host[i] = static_cast<unsigned char>(i * 7);
  SAY(call("cuMemcpyHtoD_v2", work.other, from, sizeof work.host));
  SAY(call("cuMemcpy", work.block, work.other, std::size_t{100}));
  SAY(call("cuMemcpyDtoD_v2", work.block + 200, work.other, std::size_t{100}));
  SAY(call("cuMemcpyDtoDAsync_v2", work.block + 300, work.other, std::size_t{50}, null));
  work.tell("copies");
  CUDA_MEMCPY2D rows{};
  rows.srcMemoryType = rows.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  rows.srcDevice = work.other;
  rows.dstDevice = work.block + 4;
  rows.srcPitch = rows.dstPitch = kRow;
  rows.WidthInBytes = 20;
  rows.Height = kRows;
  const auto* const two = static_cast<const CUDA_MEMCPY2D*>(&rows);
  SAY(call("cuMemcpy2D_v2", two));
  rows.dstDevice += 20;
  SAY(call("cuMemcpy2DUnaligned_v2", two));
  rows.dstDevice += 20;
  SAY(call("cuMemcpy2DAsync_v2", two, null));
  work.tell("copies of rows");
  CUDA_MEMCPY3D slices{};
  slices.srcMemoryType = slices.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  slices.srcDevice = work.other;
  slices.dstDevice = work.block + 8;
  slices.srcPitch = slices.dstPitch = kRow;
  slices.srcHeight = slices.dstHeight = kRows / 2;
  slices.WidthInBytes = 30;
  slices.Height = 2;
  slices.Depth = 2;
  const auto* const three = static_cast<const CUDA_MEMCPY3D*>(&slices);
  SAY(call("cuMemcpy3D_v2", three));
  slices.dstDevice += kRow;
  SAY(call("cuMemcpy3DAsync_v2", three, null));
  work.tell("copies of slices");
}

// A whole block, to be copied.
CUDA_MEMCPY3D rows_of_a_block() {
  CUDA_MEMCPY3D rows{};
  rows.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  rows.srcPitch = rows.dstPitch = kRow;
  rows.srcHeight = rows.dstHeight = kRows;
  rows.WidthInBytes = kRow;
  rows.Height = kRows;
  rows.Depth = 1;
  return rows;
}

// To another device's memory. The base of a copy may lie outside the memory that it touches.
void copies_abroad(const Work& work) {
  constexpr std::size_t kOutside = 1U << 20U;
  CUcontext here = nullptr;
  CUcontext there = nullptr;
  CUdeviceptr far = 0;
  SAY(call("cuCtxGetCurrent", &here));
  SAY(call("cuDevicePrimaryCtxRetain", &there, CUdevice{1}));
  SAY(call("cuCtxSetCurrent", there));
  SAY(call("cuMemAlloc_v2", &far, kRow * kRows));
  SAY(call("cuCtxSetCurrent", here));
  CUDA_MEMCPY3D rows = rows_of_a_block();
  rows.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  rows.srcDevice = work.other;
  rows.dstDevice = far - kOutside * kRow * kRows;
  rows.dstZ = kOutside;
  SAY(call("cuMemcpy3D_v2", static_cast<const CUDA_MEMCPY3D*>(&rows)));
  SAY(call("cuMemFree_v2", far));
  SAY(call("cuDevicePrimaryCtxRelease_v2", CUdevice{1}));
}

// A copy of rows to pinned memory is visible there when a free has returned, however long the
// device is busy before it.
void copy_out(Work& work) {
  constexpr std::size_t kBusy = std::size_t{64} << 20U;
  CUdeviceptr busy = 0;
  void* pinned = nullptr;
  SAY(call("cuMemAllocHost_v2", &pinned, kRow * kRows));
  SAY(call("cuMemAlloc_v2", &busy, kBusy));
  auto* const last = static_cast<volatile unsigned char*>(pinned) + (kRow * kRows - 1);
  *last = 0;
  CUDA_MEMCPY3D out = rows_of_a_block();
  out.srcDevice = work.block;
  out.dstMemoryType = CU_MEMORYTYPE_HOST;
  out.dstHost = pinned;
  const CUstream null = nullptr;
  SAY(call("cuMemsetD8Async", work.block, static_cast<unsigned char>(9), kRow * kRows, null));
  SAY(call("cuMemsetD8Async", busy, static_cast<unsigned char>(1), kBusy, null));
  SAY(call("cuMemcpy3DAsync_v2", static_cast<const CUDA_MEMCPY3D*>(&out), null));
  SAY(call("cuMemFree_v2", work.block));
  SAY(*last);
  SAY(call("cuMemFree_v2", busy));
  SAY(call("cuMemFreeHost", pinned));
}

// A copy between blocks need not have ended when cuMemcpyDtoD returns, unless one of them is
// said to be synchronous: then the stream is found idle.
void sync_memops() {
  constexpr std::size_t kMuch = std::size_t{64} << 20U;
  CUdeviceptr one = 0;
  CUdeviceptr two = 0;
  SAY(call("cuMemAlloc_v2", &one, kMuch));
  SAY(call("cuMemAlloc_v2", &two, kMuch));
  SAY(call("cuMemcpyDtoD_v2", one, two, kMuch));
  const CUresult before = call("cuStreamQuery", CUstream{nullptr});
  SAY(call("cuCtxSynchronize"));
  unsigned on = 1;
  SAY(call("cuPointerSetAttribute",
           static_cast<const void*>(&on),
           CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
           one + 4096));
  SAY(call("cuMemcpyDtoD_v2", one + 512, two, kMuch - 512));
  std::printf("# settled %d %d\n", before, call("cuStreamQuery", CUstream{nullptr}));
  SAY(call("cuMemFree_v2", one));
  SAY(call("cuMemFree_v2", two));
}

int run() {
  start();
  Work work;
  SAY(call("cuMemAlloc_v2", &work.block, kRow * kRows));
  SAY(call("cuMemAlloc_v2", &work.other, kRow * kRows));
  fills(work);
  copies(work);
  copies_abroad(work);
  copy_out(work);
  sync_memops();
  SAY(call("cuMemFree_v2", work.other));
  CUstream stream = nullptr;
  SAY(call("cuStreamCreateWithPriority", &stream, 1U, 0));
  SAY(call("cuStreamDestroy_v2", stream));
  SAY(call("cuCtxSetLimit", CU_LIMIT_STACK_SIZE, std::size_t{2048}));
  return 0;
}

}  // namespace

int main() {
  return run();
}
