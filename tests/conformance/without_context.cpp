// SPDX-License-Identifier: MIT
// Calls of a thread without a current context. A stream that the program made knows its own; a
// default stream does not.
#include "tests/conformance/cases.hpp"
#include "tests/conformance/properties.hpp"

#include <thread>

namespace conformance {
namespace {

const auto set_current = CU(cuCtxSetCurrent, cuCtxSetCurrent);
const auto alloc_async = CU(cuMemAllocAsync, cuMemAllocAsync);
const auto free_async = CU(cuMemFreeAsync, cuMemFreeAsync);
const auto from_pool = CU(cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync);
const auto alloc_plain = CU(cuMemAlloc_v2, cuMemAlloc);
const auto free_plain = CU(cuMemFree_v2, cuMemFree);
const auto fill_async = CU(cuMemsetD8Async, cuMemsetD8Async);
const auto copy_async = CU(cuMemcpyDtoDAsync_v2, cuMemcpyDtoDAsync);
const auto to_host_async = CU(cuMemcpyDtoHAsync_v2, cuMemcpyDtoHAsync);
const auto to_host = CU(cuMemcpyDtoH_v2, cuMemcpyDtoH);
const auto record = CU(cuEventRecord, cuEventRecord);
const auto wait_for = CU(cuStreamWaitEvent, cuStreamWaitEvent);
const auto synchronize = CU(cuStreamSynchronize, cuStreamSynchronize);
const auto query = CU(cuStreamQuery, cuStreamQuery);
constexpr std::size_t kBytes = 3 * kMiB;

struct Objects {
  CUcontext context = nullptr;
  CUstream stream = nullptr;
  CUevent event = nullptr;
  CUmemoryPool pool = nullptr;
  CUfunction kernel = nullptr;
};

Objects made() {
  Objects out;
  SAY(call("cuInit", 0U));
  SAY(call("cuDevicePrimaryCtxRetain", &out.context, CUdevice{0}));
  SAY(set_current(out.context));
  SAY(call("cuStreamCreate", &out.stream, unsigned{CU_STREAM_NON_BLOCKING}));
  SAY(call("cuEventCreate", &out.event, unsigned{CU_EVENT_DISABLE_TIMING}));
  const CUmemPoolProps properties = properties::of_pool();
  SAY(CU(cuMemPoolCreate, cuMemPoolCreate)(&out.pool,
                                           static_cast<const CUmemPoolProps*>(&properties)));
  SAY(find_kernel(&out.kernel));
  return out;
}

// By each asynchronous call that copies between blocks, from the host and back.
void copy_by_all(const Objects& objects, CUdeviceptr to, CUdeviceptr from) {
  SAY(copy_async(to, from, kBytes, objects.stream));
  SAY(CU(cuMemcpyAsync, cuMemcpyAsync)(to, from, kBytes / 2, objects.stream));
  CUDA_MEMCPY2D rows{};
  rows.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  rows.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  rows.srcDevice = from;
  rows.dstDevice = to;
  rows.srcPitch = rows.dstPitch = 1024;
  rows.WidthInBytes = 512;
  rows.Height = 100;
  SAY(CU(cuMemcpy2DAsync_v2, cuMemcpy2DAsync)(static_cast<const CUDA_MEMCPY2D*>(&rows),
                                              objects.stream));
  CUDA_MEMCPY3D planes{};
  planes.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  planes.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  planes.srcDevice = from;
  planes.dstDevice = to;
  planes.srcPitch = planes.dstPitch = 1024;
  planes.srcHeight = planes.dstHeight = 10;
  planes.WidthInBytes = 512;
  planes.Height = 10;
  planes.Depth = 4;
  SAY(CU(cuMemcpy3DAsync_v2, cuMemcpy3DAsync)(static_cast<const CUDA_MEMCPY3D*>(&planes),
                                              objects.stream));
  SAY(call(
      "cuMemcpyPeerAsync", to, objects.context, from, objects.context, kBytes, objects.stream));
  unsigned char bytes[64] = {};
  SAY(to_host_async(static_cast<void*>(bytes), from, sizeof bytes, objects.stream));
  SAY(CU(cuMemcpyHtoDAsync_v2, cuMemcpyHtoDAsync)(
      to + 4096, static_cast<const void*>(bytes), sizeof bytes, objects.stream));
  SAY(CU(cuMemsetD32Async, cuMemsetD32Async)(
      to + 8192, 0x07070707U, std::size_t{16}, objects.stream));
  SAY(CU(cuMemsetD2D8Async, cuMemsetD2D8Async)(to + 16384,
                                               std::size_t{1024},
                                               static_cast<unsigned char>(7),
                                               std::size_t{100},
                                               std::size_t{5},
                                               objects.stream));
}

unsigned char byte_of(CUdeviceptr p, CUstream stream) {
  unsigned char byte = 0;
  SAY(to_host_async(static_cast<void*>(&byte), p, std::size_t{1}, stream));
  SAY(synchronize(stream));
  return byte;
}

// Allocates, works and frees in the order of the stream, round after round, so that memory is
// used again.
void work_on(const Objects& objects) {
  for (unsigned char round = 1; round <= 3; ++round) {
    CUdeviceptr p = 0;
    CUdeviceptr q = 0;
    SAY(alloc_async(&p, kBytes, objects.stream));
    SAY(from_pool(&q, kBytes, objects.pool, objects.stream));
    SAY(fill_async(p, round, kBytes, objects.stream));
    copy_by_all(objects, q, p);
    for (const std::size_t at :
         {std::size_t{0}, std::size_t{4096}, std::size_t{8192}, std::size_t{16385}, kBytes - 1})
      SAY(byte_of(q + at, objects.stream));
    SAY(free_async(p, objects.stream));
    SAY(free_async(q, objects.stream));
  }
}

}  // namespace

CASE(streams_without_a_context) {
  const Objects objects = made();
  SAY(set_current(nullptr));
  work_on(objects);
  SAY(record(objects.event, objects.stream));
  SAY(wait_for(objects.stream, objects.event, 0U));
  SAY(synchronize(objects.stream));
  SAY(query(objects.stream));
  SAY(call("cuEventQuery", objects.event));
  SAY(call("cuEventSynchronize", objects.event));
  SAY(call("cuStreamDestroy_v2", objects.stream));
}

// Memory that was allocated beside the context, and freed without; and the other way round.
CASE(streams_with_a_context_on_one_side) {
  const Objects objects = made();
  CUdeviceptr ordered = 0;
  CUdeviceptr pooled = 0;
  CUdeviceptr plain = 0;
  SAY(alloc_async(&ordered, kBytes, objects.stream));
  SAY(from_pool(&pooled, kBytes, objects.pool, objects.stream));
  SAY(alloc_plain(&plain, kBytes));
  SAY(set_current(nullptr));
  CUdeviceptr words = plain;
  std::uint64_t count = kBytes / 4;
  unsigned value = 7;
  void* parameters[] = {&words, &count, &value};
  CUstream const on = objects.stream;
  void** const all = parameters;
  void** const none = nullptr;
  SAY(call("cuLaunchKernel", objects.kernel, 1U, 1U, 1U, 32U, 1U, 1U, 0U, on, all, none));
  SAY(synchronize(objects.stream));
  SAY(free_async(ordered, objects.stream));
  SAY(free_async(pooled, objects.stream));
  SAY(free_async(plain, objects.stream));
  SAY(alloc_async(&ordered, kBytes, objects.stream));
  SAY(from_pool(&pooled, kBytes, objects.pool, objects.stream));
  SAY(set_current(objects.context));
  SAY(fill_async(ordered, 9, kBytes, objects.stream));
  SAY(byte_of(ordered, objects.stream));
  SAY(free_async(ordered, objects.stream));
  SAY(free_plain(pooled));
  SAY(alloc_plain(&plain, kBytes));
  std::thread([&] {
    SAY(free_async(plain, objects.stream));
    SAY(synchronize(objects.stream));
  }).join();
}

// A block stays in use when its free is refused. A driver may crash on such a handle, so only
// the simulator is asked.
CASE(streams_that_have_ended) {
  if (!on_simulator()) return;
  const Objects objects = made();
  CUdeviceptr plain = 0;
  CUdeviceptr ordered = 0;
  SAY(alloc_plain(&plain, kBytes));
  SAY(alloc_async(&ordered, kBytes, objects.stream));
  SAY(synchronize(objects.stream));
  CUstream ended = nullptr;
  SAY(call("cuStreamCreate", &ended, unsigned{CU_STREAM_NON_BLOCKING}));
  SAY(fill_async(plain, 1, kBytes, ended));
  SAY(synchronize(ended));
  SAY(call("cuStreamDestroy_v2", ended));
  for (CUcontext const current : {objects.context, CUcontext{nullptr}}) {
    SAY(set_current(current));
    for (const CUdeviceptr p : {plain, ordered})
      SAY(free_async(p, ended));
  }
  SAY(free_async(plain, objects.stream));
  SAY(free_async(ordered, objects.stream));
}

// Another thread destroys the context that is current here.
CASE(streams_beside_a_destroyed_context) {
  const Objects objects = made();
  CUdeviceptr blocks[6] = {};
  for (CUdeviceptr& block : blocks)
    SAY(alloc_plain(&block, kBytes));
  CUcontext other = nullptr;
  SAY(call("cuCtxCreate_v2", &other, 0U, CUdevice{0}));
  std::thread([other] { SAY(call("cuCtxDestroy_v2", other)); }).join();
  for (const int round : {0, 3}) {
    SAY(free_plain(blocks[round]));
    SAY(free_async(blocks[round + 1], CU_STREAM_LEGACY));
    SAY(fill_async(blocks[round + 2], 1, kBytes, objects.stream));
    SAY(free_async(blocks[round + 2], objects.stream));
    SAY(synchronize(objects.stream));
    SAY(synchronize(CU_STREAM_LEGACY));
  }
  SAY(set_current(objects.context));
  for (const int round : {0, 3}) {
    SAY(free_plain(blocks[round]));
    SAY(free_plain(blocks[round + 1]));
  }
}

CASE(streams_that_need_a_context) {
  const Objects objects = made();
  CUdeviceptr plain = 0;
  CUdeviceptr ordered = 0;
  SAY(alloc_plain(&plain, kBytes));
  SAY(alloc_async(&ordered, kBytes, objects.stream));
  SAY(set_current(nullptr));
  CUdeviceptr p = 99;
  for (const CUstream stream : {CUstream{nullptr}, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD}) {
    SAY(alloc_async(&p, kBytes, stream));
    SAY(from_pool(&p, kBytes, objects.pool, stream));
    SAY(fill_async(plain, 1, kBytes, stream));
    SAY(free_async(plain, stream));
    SAY(free_async(ordered, stream));
    SAY(synchronize(stream));
  }
  unsigned char byte = 0;
  SAY(alloc_plain(&p, kBytes));
  SAY(to_host(static_cast<void*>(&byte), plain, std::size_t{1}));
  CUevent event = nullptr;
  SAY(call("cuEventCreate", &event, unsigned{CU_EVENT_DISABLE_TIMING}));
  SAY(call("cuCtxSynchronize"));
  std::size_t pitch = 0;
  SAY(CU(cuMemAllocPitch_v2, cuMemAllocPitch)(
      &p, &pitch, std::size_t{100}, std::size_t{10}, 4U));
  SAY(free_plain(plain));
  SAY(free_plain(ordered));
  SAY(set_current(objects.context));
  SAY(call("cuCtxSynchronize"));
}

}  // namespace conformance
