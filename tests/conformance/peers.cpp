// SPDX-License-Identifier: MIT
// Two devices: every way by which one's calls name the other's memory, without peer access,
// with it, and after it was taken away.
#include "tests/conformance/cases.hpp"

#include <cstdlib>
#include <cstring>

namespace conformance {
namespace {

constexpr std::size_t kSizes[] = {4096, 3 * kMiB, 9 * kMiB};

struct Pair {
  explicit Pair(std::size_t bytes) {
    cudaSetDevice(1);
    cudaMalloc(&one, bytes);
    cudaSetDevice(0);
    cudaMalloc(&zero, bytes);
  }

  ~Pair() {
    cudaFree(one);
    cudaFree(zero);
  }

  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  void* zero = nullptr;
  void* one = nullptr;
};

bool plain_segments() {
  const char* conf = std::getenv("CONFORMANCE_CONF");
  return conf != nullptr && std::strstr(conf, "backing:driver") != nullptr;
}

void settle() {
  for (const int device : {1, 0}) {
    SAY(cudaSetDevice(device));
    SAY(cudaDeviceSynchronize());
  }
}

// Writes `value` by `copy` from device 0 to device 1 and looks at what has arrived.
template <typename Copy>
void copied(const char* what, std::size_t bytes, int value, Copy copy) {
  const Pair blocks(bytes);
  cudaSetDevice(0);
  const cudaError_t filled = cudaMemset(blocks.zero, value, bytes);
  cudaDeviceSynchronize();
  const int code = copy(blocks.one, blocks.zero, bytes);
  cudaDeviceSynchronize();
  cudaSetDevice(1);
  const long long wrong =
      wrong_words(blocks.one, bytes, static_cast<unsigned>(value) * 0x01010101U);
  cudaSetDevice(0);
  std::printf("%s, %zu bytes: %d %d, wrong %lld, last error %d\n",
              what,
              bytes,
              filled,
              code,
              wrong,
              cudaGetLastError());
}

void all_copies(int value) {
  for (const std::size_t bytes : kSizes) {
    copied("cudaMemcpy", bytes, value, [](void* to, void* from, std::size_t n) {
      return cudaMemcpy(to, from, n, cudaMemcpyDefault);
    });
    copied(
        "cudaMemcpy, device to device", bytes, value, [](void* to, void* from, std::size_t n) {
          return cudaMemcpy(to, from, n, cudaMemcpyDeviceToDevice);
        });
    copied("cudaMemcpy by the target's device",
           bytes,
           value,
           [](void* to, void* from, std::size_t n) {
             cudaSetDevice(1);
             const cudaError_t code = cudaMemcpy(to, from, n, cudaMemcpyDefault);
             cudaDeviceSynchronize();
             cudaSetDevice(0);
             return code;
           });
    copied("cudaMemcpyAsync", bytes, value, [](void* to, void* from, std::size_t n) {
      const Stream stream;
      return cudaMemcpyAsync(to, from, n, cudaMemcpyDefault, stream);
    });
    copied("cudaMemcpyPeer", bytes, value, [](void* to, void* from, std::size_t n) {
      return cudaMemcpyPeer(to, 1, from, 0, n);
    });
    copied("cudaMemcpyPeerAsync", bytes, value, [](void* to, void* from, std::size_t n) {
      const Stream stream;
      return cudaMemcpyPeerAsync(to, 1, from, 0, n, stream);
    });
    copied("cudaMemcpy2D", bytes, value, [](void* to, void* from, std::size_t n) {
      return cudaMemcpy2D(to, 1024, from, 1024, 1024, n / 1024, cudaMemcpyDefault);
    });
    copied("cuMemcpyDtoD", bytes, value, [](void* to, void* from, std::size_t n) {
      return static_cast<cudaError_t>(
          CU(cuMemcpyDtoD_v2, cuMemcpyDtoD)(address(to), address(from), n));
    });
    copied("a captured cudaMemcpyAsync", bytes, value, [](void* to, void* from, std::size_t n) {
      const Stream stream;
      cudaGraph_t graph = nullptr;
      cudaGraphExec_t ready = nullptr;
      cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed);
      const cudaError_t code = cudaMemcpyAsync(to, from, n, cudaMemcpyDefault, stream);
      cudaStreamEndCapture(stream, &graph);
      cudaGraphInstantiateWithFlags(&ready, graph, 0);
      const cudaError_t launched = cudaGraphLaunch(ready, stream);
      cudaStreamSynchronize(stream);
      cudaGraphExecDestroy(ready);
      cudaGraphDestroy(graph);
      return code != cudaSuccess ? code : launched;
    });
  }
}

}  // namespace

CASE(peers_copies_without_access) {
  if (!have_devices(2)) return;
  all_copies(3);
}

CASE(peers_copies_with_access) {
  if (!have_devices(2)) return;
  SAY(cudaSetDevice(1));
  SAY(cudaDeviceEnablePeerAccess(0, 0));
  SAY(cudaSetDevice(0));
  SAY(cudaDeviceEnablePeerAccess(1, 0));
  all_copies(4);
  SAY(cudaDeviceDisablePeerAccess(1));
  all_copies(5);
}

// To and from the host, fills and questions, with the other device current.
CASE(peers_other_device_current) {
  if (!have_devices(2)) return;
  for (const std::size_t bytes : kSizes) {
    const Pair blocks(bytes);
    unsigned words[4] = {1, 2, 3, 4};
    void* pinned = nullptr;
    SAY(cudaHostAlloc(&pinned, 4096, cudaHostAllocPortable));
    SAY(cudaSetDevice(0));
    SAY(cudaMemcpy(blocks.one, words, sizeof words, cudaMemcpyHostToDevice));
    words[2] = 0;
    SAY(cudaMemcpy(words, blocks.one, sizeof words, cudaMemcpyDeviceToHost));
    SAY(words[2]);
    const Stream stream;
    *static_cast<unsigned*>(pinned) = 77;
    SAY(cudaMemcpyAsync(blocks.one, pinned, 4096, cudaMemcpyHostToDevice, stream));
    SAY(cudaStreamSynchronize(stream));
    *static_cast<unsigned*>(pinned) = 0;
    SAY(cudaMemcpyAsync(pinned, blocks.one, 4096, cudaMemcpyDeviceToHost, stream));
    SAY(cudaStreamSynchronize(stream));
    SAY(*static_cast<unsigned*>(pinned));
    if (plain_segments()) {
      SAY_WITH_LAST(cudaMemset(blocks.one, 6, bytes));
      SAY_WITH_LAST(cudaMemsetAsync(blocks.one, 7, bytes, stream));
    } else {  // bare refuses them; on mapped pages they are done (docs/semantics.md)
      for (const cudaError_t code :
           {cudaMemset(blocks.one, 6, bytes), cudaMemsetAsync(blocks.one, 7, bytes, stream)}) {
        std::printf("# %d\n", code);
        SAY(code == cudaSuccess || code == cudaErrorInvalidValue);
      }
      cudaGetLastError();
    }
    settle();
    cudaPointerAttributes told{};
    SAY(cudaPointerGetAttributes(&told, blocks.one));
    SAY(told.device);
    SAY(told.type);
    SAY(cudaFreeHost(pinned));
  }
}

CASE(peers_codes) {
  if (!have_devices(2)) return;
  int can = 0;
  SAY(cudaDeviceCanAccessPeer(&can, 0, 1));
  SAY(cudaSetDevice(0));
  SAY_WITH_LAST(cudaDeviceDisablePeerAccess(1));
  SAY_WITH_LAST(cudaDeviceEnablePeerAccess(1, 1));
  SAY_WITH_LAST(cudaDeviceEnablePeerAccess(0, 0));
  for (int round = 0; round < 2; ++round) {
    SAY_WITH_LAST(cudaDeviceEnablePeerAccess(1, 0));
    SAY_WITH_LAST(cudaDeviceEnablePeerAccess(1, 0));
    SAY_WITH_LAST(cudaDeviceDisablePeerAccess(1));
  }
}

// Kernels of device 0 write memory of device 1, from before and after access was given, on
// pages that are new and on pages handed out again.
CASE(peers_kernels) {
  if (!have_devices(2)) return;
  int can = 0;
  if (cudaDeviceCanAccessPeer(&can, 0, 1) != cudaSuccess || can == 0) {
    std::printf("no peers\n");
    return;
  }
  for (int round = 0; round < 2; ++round) {
    SAY(cudaSetDevice(1));
    void* old[3] = {};
    for (int i = 0; i < 3; ++i)
      SAY(cudaMalloc(&old[i], kSizes[i]));
    SAY(cudaSetDevice(0));
    SAY(cudaDeviceEnablePeerAccess(1, 0));
    SAY(cudaSetDevice(1));
    void* fresh[3] = {};
    for (int i = 0; i < 3; ++i)
      SAY(cudaMalloc(&fresh[i], kSizes[i]));
    for (int i = 0; i < 3; ++i) {
      for (void* p : {old[i], fresh[i]}) {
        SAY(cudaSetDevice(0));
        SAY(write_words(nullptr, p, kSizes[i] / 4, 0xabcd));
        SAY(cudaDeviceSynchronize());
        SAY(cudaSetDevice(1));
        SAY(wrong_words(p, kSizes[i], 0xabcd));
        SAY(cudaFree(p));
      }
    }
    void* again = nullptr;
    SAY(cudaMalloc(&again, kSizes[1]));
    SAY(cudaSetDevice(0));
    SAY(write_words(nullptr, again, kSizes[1] / 4, 0x1234));
    SAY(cudaDeviceSynchronize());
    SAY(cudaFree(again));  // with the other device current
    SAY(cudaDeviceDisablePeerAccess(1));
  }
}

enum class Asked { Before, Never };

// Kernels of device 1 write blocks of device 0's default pool, from before and after access was
// given. A question about its use before that counts the pool.
static void written_in_pools(Asked asked) {
  int can = 0;
  if (!have_devices(2) || cudaDeviceCanAccessPeer(&can, 1, 0) != cudaSuccess || can == 0)
    return;
  SAY(cudaSetDevice(1));
  SAY(cudaFree(nullptr));
  SAY(cudaSetDevice(0));
  cudaMemPool_t pool = nullptr;
  SAY(cudaDeviceGetDefaultMemPool(&pool, 0));
  void* blocks[6] = {};
  for (int i = 0; i < 3; ++i)
    SAY(cudaMallocAsync(&blocks[i], kSizes[i], nullptr));
  std::uint64_t used = 0;
  if (asked == Asked::Before)
    SAY(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used));
  cudaMemAccessDesc access{};
  access.location = {cudaMemLocationTypeDevice, 1};
  access.flags = cudaMemAccessFlagsProtReadWrite;
  SAY(cudaMemPoolSetAccess(pool, &access, 1));
  for (int i = 0; i < 3; ++i)
    SAY(cudaMallocAsync(&blocks[3 + i], kSizes[i], nullptr));
  SAY(cudaDeviceSynchronize());
  for (int i = 0; i < 6 && !plain_segments(); ++i) {  // as docs/semantics.md says
    SAY(cudaSetDevice(1));
    SAY(write_words(nullptr, blocks[i], kSizes[i % 3] / 4, 0xabcd));
    SAY(cudaDeviceSynchronize());
    SAY(cudaSetDevice(0));
    SAY(wrong_words(blocks[i], kSizes[i % 3], 0xabcd));
  }
  SAY(cudaSetDevice(0));
  for (void* block : blocks)
    SAY(cudaFreeAsync(block, nullptr));
  SAY(cudaDeviceSynchronize());
}

CASE(peers_in_pools) {
  written_in_pools(Asked::Never);
}

CASE(peers_in_counted_pools) {
  written_in_pools(Asked::Before);
}

CASE(peers_frees) {
  if (!have_devices(2)) return;
  for (const std::size_t bytes : kSizes) {
    void* p = nullptr;
    SAY(cudaSetDevice(1));
    SAY(cudaMalloc(&p, bytes));
    SAY(cudaMemset(p, 1, bytes));
    SAY(cudaSetDevice(0));
    SAY(cudaFree(p));
    SAY_WITH_LAST(cudaFree(p));
    SAY(cudaSetDevice(1));
    SAY(cudaMalloc(&p, bytes));
    SAY(cudaMemset(p, 2, bytes));
    SAY(wrong_words(p, bytes, 0x02020202));
    SAY(cudaFree(p));
  }
}

}  // namespace conformance
