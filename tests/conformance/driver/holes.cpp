// SPDX-License-Identifier: MIT
// Memory freed under a kernel that still runs, and used again where no submission would wait
// for that kernel. Argument: which part. What is said must be the same bare and preloaded, but
// for the lines that begin with #. Kernels take what CUSTASH_SIM's kernel_ns says.
#include "tests/conformance/driver/driver.hpp"
#include "tests/sim/detector_abi.h"

#include <cstring>
#include <initializer_list>

namespace {

using namespace semantics;

constexpr std::size_t kBytes = std::size_t{4} << 20U;

// Memory whose last owner's kernel may still run on `stream`.
CUdeviceptr freed_and_had_again(CUfunction kernel, CUstream stream) {
  CUdeviceptr p = 0;
  CUdeviceptr q = 0;
  SAY(call("cuMemAlloc_v2", &p, kBytes));
  SAY(launch(kernel, stream));
  SAY(call("cuMemFree_v2", p));
  std::printf("# at_free %d\n", call("cuStreamQuery", stream));
  SAY(call("cuMemAlloc_v2", &q, kBytes));
  SAY(q == p);
  return q;
}

// It leaves the sight of the context's streams: nobody waits there, so that it must be quiet.
void sight() {
  start();
  CUfunction const late = function("late");
  CUstream stream = new_stream();
  const unsigned on = 1;
  CUipcMemHandle handle{};
  CUdeviceptr q = freed_and_had_again(late, stream);
  SAY(call("cuIpcGetMemHandle", &handle, q));
  SAY(call("cuStreamQuery", stream));
  SAY(call("cuMemFree_v2", q));
  q = freed_and_had_again(late, stream);
  SAY(call("cuPointerSetAttribute",
           static_cast<const void*>(&on),
           CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
           q));
  SAY(call("cuStreamQuery", stream));
  SAY(call("cuMemFree_v2", q));
  q = freed_and_had_again(late, stream);
  int file = -1;
  SAY(call("cuMemGetHandleForAddressRange", static_cast<void*>(&file), q, kBytes, 1, 0ULL));
  SAY(call("cuStreamQuery", stream));
}

// SYNC_MEMOPS for all memory of a context, as UCX sets it: before the first memory, or while
// some is in use whose former owner's kernel still runs.
void flags(const char* how) {
  constexpr unsigned kSyncMemops = 0x80;  // CU_CTX_SYNC_MEMOPS, from CUDA 12.1 on
  CUcontext context = nullptr;
  if (std::strcmp(how, "earlier") == 0) {
    SAY(call("cuInit", 0U));
    SAY(call("cuDevicePrimaryCtxSetFlags_v2", CUdevice{0}, kSyncMemops));
  }
  start();
  if (std::strcmp(how, "created") == 0)
    SAY(call("cuCtxCreate_v2", &context, kSyncMemops, CUdevice{0}));
  CUfunction const late = function("late");
  CUstream stream = new_stream();
  if (std::strcmp(how, "set") == 0 || std::strcmp(how, "primary") == 0) {
    const CUdeviceptr q = freed_and_had_again(late, stream);
    SAY(std::strcmp(how, "set") == 0
            ? call("cuCtxSetFlags", kSyncMemops)
            : call("cuDevicePrimaryCtxSetFlags_v2", CUdevice{0}, kSyncMemops));
    SAY(call("cuStreamQuery", stream));
    SAY(call("cuMemFree_v2", q));
  }
  for (int round = 0; round < 3; ++round) {
    CUdeviceptr p = 0;
    CUdeviceptr q = 0;
    SAY(call("cuMemAlloc_v2", &p, kBytes));
    SAY(launch(late, stream));
    SAY(call("cuMemFree_v2", p));
    SAY(call("cuMemAlloc_v2", &q, kBytes));
    SAY(q != p || call("cuStreamQuery", stream) == CUDA_SUCCESS);
    SAY(call("cuMemcpyDtoD_v2", q, q + kBytes / 2, kBytes / 4));
    SAY(call("cuStreamQuery", CUstream{nullptr}));
    SAY(call("cuMemFree_v2", q));
  }
}

// Handles for ranges of many sizes, as a DMA-BUF is made of them: in whole pages of the host,
// and of 64 KiB as nvidia-peermem and GDRCopy pin them. The simulator gives one only for memory
// of one allocation, which is the rule of nvidia_p2p_get_pages.
void ranges() {
  start();
  const auto pinned = [](CUdeviceptr p, std::size_t bytes) {
    int file = -1;
    return call("cuMemGetHandleForAddressRange", static_cast<void*>(&file), p, bytes, 1, 0ULL);
  };
  constexpr std::size_t kMiB = std::size_t{1} << 20U;
  constexpr std::size_t kCard = std::size_t{64} << 10U;
  for (int round = 0; round < 2; ++round) {
    for (const std::size_t bytes : {std::size_t{4096},
                                    kCard,
                                    kMiB,
                                    kMiB + 512,
                                    std::size_t{3'000'000},
                                    2 * kMiB,
                                    3 * kMiB + 512,
                                    33 * kMiB,
                                    100 * kMiB,
                                    512 * kMiB,
                                    2048 * kMiB}) {
      CUdeviceptr p = 0;
      SAY(call("cuMemAlloc_v2", &p, bytes));
      std::printf("%zu\n", bytes);
      SAY(pinned(p, bytes / 4096 * 4096));
      if (bytes <= kMiB) continue;
      SAY(p % kCard == 0);
      SAY(pinned(p, (bytes + kCard - 1) / kCard * kCard));
    }
  }
}

const custash_sim_detector_calls& detector() {
  static const auto find =
      entry<const custash_sim_detector_calls* (*)()>("custash_sim_detector");
  return *find();
}

CUresult write_early(CUfunction kernel, CUdeviceptr p, CUstream stream, bool early) {
  CUlaunchAttribute attribute{};
  attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
  attribute.value.programmaticStreamSerializationAllowed = early ? 1 : 0;
  CUlaunchConfig config{};
  config.gridDimX = config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = config.blockDimY = config.blockDimZ = 1;
  config.hStream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  void* params[] = {&p};
  return call("cuLaunchKernelEx",
              static_cast<const CUlaunchConfig*>(&config),
              kernel,
              static_cast<void**>(params),
              static_cast<void**>(nullptr));
}

// Programmatic dependent launches: the next owner's kernel may begin before the last one's
// ended.
void early_launches() {
  start();
  CUfunction const writes = function("writes");
  CUstream stream = new_stream();
  CUdeviceptr p = 0;
  for (int i = 0; i < 3; ++i) {
    SAY(call("cuMemAlloc_v2", &p, kBytes));
    detector().allocated(reinterpret_cast<void*>(p), kBytes, 0, nullptr);
    SAY(write_early(writes, p, stream, i != 0));
    detector().freed(reinterpret_cast<void*>(p), 0, nullptr);
    SAY(call("cuMemFree_v2", p));
    std::printf("# at_free %d\n", call("cuStreamQuery", stream));
  }
  SAY(call("cuStreamSynchronize", stream));
  SAY(static_cast<int>(detector().count(nullptr)));
}

// Memory of a call that names a stream is told as the default pool's.
void answers() {
  start();
  CUstream stream = new_stream();
  CUmemoryPool const standard = default_pool();
  for (const std::size_t bytes : {std::size_t{1000}, kBytes}) {
    for (int round = 0; round < 3; ++round) {  // the later ones are hits of the cache
      CUdeviceptr ordered = 0;
      CUdeviceptr plain = 0;
      SAY(call("cuMemAllocAsync", &ordered, bytes, stream));
      SAY(call("cuMemAlloc_v2", &plain, bytes));
      for (const CUdeviceptr p : {ordered, plain}) {
        CUmemoryPool pool = nullptr;
        unsigned capable = 0;
        SAY(call("cuPointerGetAttribute",
                 static_cast<void*>(&pool),
                 CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE,
                 p));
        SAY(pool == standard);
        SAY(pool == nullptr);
        SAY(call("cuPointerGetAttribute",
                 static_cast<void*>(&capable),
                 CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
                 p));
        SAY(capable & 1U);
      }
      SAY(call("cuMemFree_v2", plain));
      SAY(call("cuMemFreeAsync", ordered, stream));
    }
  }
  std::size_t pitch = 0;
  CUdeviceptr p = 0;
  SAY(call("cuMemAllocPitch_v2", &p, &pitch, ~std::size_t{0}, std::size_t{1}, 4U));
}

// A kernel may write what the host reads right after a free. By which door it came to that
// memory the argument says; the last one is none.
void host_reach(const char* door) {
  start();
  CUfunction const late = function("late");
  CUstream stream = new_stream();
  void* host = nullptr;
  SAY(call("cuMemHostAlloc", &host, std::size_t{4096}, 0U));
  CUdeviceptr told = 0;
  if (std::strcmp(door, "attribute") == 0) {
    SAY(call("cuPointerGetAttribute",
             static_cast<void*>(&told),
             CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
             reinterpret_cast<CUdeviceptr>(host)));
  }
  if (std::strcmp(door, "attributes") == 0) {
    CUpointer_attribute which = CU_POINTER_ATTRIBUTE_DEVICE_POINTER;
    void* out = &told;
    SAY(call("cuPointerGetAttributes", 1U, &which, &out, reinterpret_cast<CUdeviceptr>(host)));
  }
  CUdeviceptr p = 0;
  SAY(call("cuMemAlloc_v2", &p, kBytes));
  if (std::strcmp(door, "none") == 0) {
    SAY(call("cuPointerGetAttribute",
             static_cast<void*>(&told),
             CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
             p));
  }
  SAY(launch(late, stream));
  SAY(call("cuMemFree_v2", p));
  std::printf("# at_free %d\n", call("cuStreamQuery", stream));
}

// A copy to the device is queued behind a kernel, and something else is freed. What it reads
// the argument says. Whether the free has waited is told beside.
void refill(const char* from) {
  start();
  CUfunction const late = function("late");
  CUstream stream = new_stream();
  static char pageable[4096];
  void* host = pageable;
  if (std::strcmp(from, "pageable") != 0)
    SAY(call("cuMemHostAlloc", &host, sizeof pageable, 0U));
  CUdeviceptr p = 0;
  CUdeviceptr q = 0;
  SAY(call("cuMemAlloc_v2", &p, kBytes));
  SAY(call("cuMemAlloc_v2", &q, kBytes));
  SAY(launch(late, stream));
  if (std::strcmp(from, "unified") == 0) {
    SAY(call("cuMemcpyAsync", q, reinterpret_cast<CUdeviceptr>(host), sizeof pageable, stream));
  } else if (std::strcmp(from, "plane") == 0) {
    CUDA_MEMCPY2D copy{};
    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = host;
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.dstDevice = q;
    copy.WidthInBytes = copy.srcPitch = copy.dstPitch = sizeof pageable;
    copy.Height = 1;
    SAY(call("cuMemcpy2DAsync_v2", &copy, stream));
  } else {
    SAY(call(
        "cuMemcpyHtoDAsync_v2", q, static_cast<const void*>(host), sizeof pageable, stream));
  }
  SAY(call("cuMemFree_v2", p));
  std::printf("# at_free %d\n", call("cuStreamQuery", stream));
}

}  // namespace

int main(int argc, char** argv) {
  const char* const which = argc > 1 ? argv[1] : "";
  if (std::strcmp(which, "sight") == 0) sight();
  if (std::strcmp(which, "ranges") == 0) ranges();
  if (std::strcmp(which, "flags") == 0) flags(argv[2]);
  if (std::strcmp(which, "early") == 0) early_launches();
  if (std::strcmp(which, "answers") == 0) answers();
  if (std::strcmp(which, "host") == 0) host_reach(argv[2]);
  if (std::strcmp(which, "refill") == 0) refill(argv[2]);
  return 0;
}
