// SPDX-License-Identifier: MIT
// limits KIND ORDER THREADS BYTES: allocates device memory of one kind until it is refused, in
// an order, and prints what was had and the most that the process used of the device, as NVML's
// double counts it. With RUNTIME the kinds that the runtime has come through it.
//   fill     as many pieces as there are
//   varied   each of another size, so that no answer serves twice
//   again    fills, frees all, fills again: the second time counts
//   cached   fills with plain memory, frees that, then fills
//   mixed    half of the pieces plain, then fills
//   failing  first a thousand calls that the driver refuses for another reason
//   later    eight of the kind, which may not be refused, then as much plain memory as there is
//   racing   THREADS threads take and free at random, then fill
//   released  as many pieces as THREADS, frees them, four contexts, then fills
//   changing  racing, and each thread makes and ends streams meanwhile
#include "tests/process/calls.hpp"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <cuda.h>
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>
#ifdef RUNTIME
#include <cuda_runtime_api.h>
#endif

namespace {

using calls::call;
using calls::context;

constexpr int kMost = 100'000;
constexpr int kFailures = 1000;
constexpr std::size_t kMiB = std::size_t{1} << 20U;

// ---- NVML.

struct ProcessUse {
  unsigned pid;
  unsigned long long used;
  unsigned instances[2];
};

template <typename... Args>
int nvml(const char* name, Args... args) {
  static void* const library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
  void* const found = library == nullptr ? nullptr : dlsym(library, name);
  if (found == nullptr) std::exit(3);
  return reinterpret_cast<int (*)(Args...)>(found)(args...);
}

void* nvml_device() {
  static void* const device = [] {
    void* handle = nullptr;
    if (nvml("nvmlInit_v2") != 0) std::exit(3);
    nvml("nvmlDeviceGetHandleByIndex_v2", 0U, &handle);
    return handle;
  }();
  return device;
}

// What NVML counts for this process.
std::size_t used() {
  ProcessUse list[64];
  unsigned count = 64;
  if (nvml("nvmlDeviceGetComputeRunningProcesses_v3", nvml_device(), &count, list) != 0)
    std::exit(3);
  for (unsigned i = 0; i < count; ++i)
    if (list[i].pid == static_cast<unsigned>(getpid())) return list[i].used;
  return 0;
}

// ---- Kinds of memory.

// A piece, whatever it is to CUDA: an address or a handle.
using Made = unsigned long long;

template <typename Handle>
Handle as(Made what) {
  return reinterpret_cast<Handle>(what);
}

template <typename Handle, typename Call>
int make_as(Made* out, Call call) {
  Handle piece{};
  const int code = call(&piece);
  std::memcpy(out, &piece, sizeof piece);
  return code;
}

struct Kind {
  int (*make)(std::size_t bytes, Made* out);
  int (*end)(Made what);
};

CUmemoryPool pool = nullptr;
constexpr std::size_t kWidth = 64 << 10;

CUDA_ARRAY3D_DESCRIPTOR floats(std::size_t bytes) {
  return {kWidth / 4, bytes / kWidth, 0, CU_AD_FORMAT_FLOAT, 1, 0};
}

#ifdef RUNTIME
using Pointer = void*;
#define EITHER(of_runtime, of_driver) of_runtime
#else
using Pointer = CUdeviceptr;
#define EITHER(of_runtime, of_driver) of_driver
#endif

int free_plain(Made what) {
  return EITHER(cudaFree(as<Pointer>(what)), call("cuMemFree_v2", what));
}

int free_async(Made what) {
  return EITHER(cudaFreeAsync(as<Pointer>(what), nullptr),
                call("cuMemFreeAsync", what, CUstream{}));
}

int make_plain(std::size_t bytes, Made* out) {
  return make_as<Pointer>(out, [&](Pointer* at) {
    return EITHER(cudaMalloc(at, bytes), call("cuMemAlloc_v2", at, bytes));
  });
}

int make_async(std::size_t bytes, Made* out) {
  return make_as<Pointer>(out, [&](Pointer* at) {
    return EITHER(cudaMallocAsync(at, bytes, nullptr),
                  call("cuMemAllocAsync", at, bytes, CUstream{}));
  });
}

int make_from_pool(std::size_t bytes, Made* out) {
  return make_as<Pointer>(out, [&](Pointer* at) {
    return EITHER(cudaMallocFromPoolAsync(at, bytes, pool, nullptr),
                  call("cuMemAllocFromPoolAsync", at, bytes, pool, CUstream{}));
  });
}

int make_pitched(std::size_t bytes, Made* out) {
  std::size_t pitch = 0;
  return make_as<Pointer>(out, [&](Pointer* at) {
    return EITHER(cudaMallocPitch(at, &pitch, bytes / 1024, 1024),
                  call("cuMemAllocPitch_v2", at, &pitch, bytes / 1024, std::size_t{1024}, 4U));
  });
}

int make_managed(std::size_t bytes, Made* out) {
  return make_as<Pointer>(out, [&](Pointer* at) {
    return EITHER(cudaMallocManaged(at, bytes, cudaMemAttachGlobal),
                  call("cuMemAllocManaged", at, bytes, 1U));
  });
}

int make_handle_on(CUmemLocationType where, std::size_t bytes, Made* out) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {.type = where, .id = 0};
  return call("cuMemCreate", out, bytes, &properties, 0ULL);
}

int make_handle(std::size_t bytes, Made* out) {
  return make_handle_on(CU_MEM_LOCATION_TYPE_DEVICE, bytes, out);
}

// Of the host: its location's number is no device's.
int make_host_handle(std::size_t bytes, Made* out) {
  return make_handle_on(static_cast<CUmemLocationType>(3), bytes, out);
}

int end_handle(Made what) {
  return call("cuMemRelease", what);
}

int make_array(std::size_t bytes, Made* out) {
  const CUDA_ARRAY_DESCRIPTOR what = {kWidth / 4, bytes / kWidth, CU_AD_FORMAT_FLOAT, 1};
  return make_as<CUarray>(
      out, [&](CUarray* array) { return call("cuArrayCreate_v2", array, &what); });
}

int make_array_3d(std::size_t bytes, Made* out) {
  const CUDA_ARRAY3D_DESCRIPTOR what = floats(bytes);
  return make_as<CUarray>(
      out, [&](CUarray* array) { return call("cuArray3DCreate_v2", array, &what); });
}

int end_array(Made what) {
  return call("cuArrayDestroy", as<CUarray>(what));
}

int make_mipmap(std::size_t bytes, Made* out) {
  const CUDA_ARRAY3D_DESCRIPTOR what = floats(bytes);
  return make_as<CUmipmappedArray>(out, [&](CUmipmappedArray* array) {
    return call("cuMipmappedArrayCreate", array, &what, 1U);
  });
}

int end_mipmap(Made what) {
  return call("cuMipmappedArrayDestroy", as<CUmipmappedArray>(what));
}

int make_external(std::size_t bytes, Made* out) {
  CUDA_EXTERNAL_MEMORY_HANDLE_DESC what{};
  what.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD;
  what.handle.fd = memfd_create("external", MFD_CLOEXEC);
  what.size = bytes;
  if (ftruncate(what.handle.fd, static_cast<off_t>(bytes)) != 0) std::exit(3);
  const int code = make_as<CUexternalMemory>(out, [&](CUexternalMemory* memory) {
    return call("cuImportExternalMemory", memory, &what);
  });
  if (code != 0) close(what.handle.fd);
  return code;
}

int end_external(Made what) {
  return call("cuDestroyExternalMemory", as<CUexternalMemory>(what));
}

int make_context(std::size_t, Made* out) {
  return make_as<CUcontext>(
      out, [](CUcontext* made) { return call("cuCtxCreate_v2", made, 0U, 0); });
}

int end_context(Made what) {
  return call("cuCtxDestroy_v2", as<CUcontext>(what));
}

int make_module(std::size_t, Made* out) {
  const char* const code = ".version 7.0\n.target sm_52\n.address_size 64\n";
  return make_as<CUmodule>(
      out, [&](CUmodule* made) { return call("cuModuleLoadData", made, code); });
}

int end_module(Made what) {
  return call("cuModuleUnload", as<CUmodule>(what));
}

// A graph that allocates when it runs.
int make_graph(std::size_t bytes, Made* out) {
  CUstream stream = nullptr;
  CUdeviceptr at = 0;
  int code = call("cuStreamCreate", &stream, unsigned{CU_STREAM_NON_BLOCKING});
  if (code == 0) code = call("cuStreamBeginCapture_v2", stream, CU_STREAM_CAPTURE_MODE_RELAXED);
  if (code != 0) return code;
  code = call("cuMemAllocAsync", &at, bytes, stream);
  const int ended = make_as<CUgraph>(
      out, [&](CUgraph* graph) { return call("cuStreamEndCapture", stream, graph); });
  return code != 0 ? code : ended;
}

const std::map<std::string, Kind> kKinds = {
    {"plain", {make_plain, free_plain}},
    {"async", {make_async, free_async}},
    {"pool", {make_from_pool, free_async}},
    {"pitched", {make_pitched, free_plain}},
    {"managed", {make_managed, free_plain}},
    {"handle", {make_handle, end_handle}},
    {"host_handle", {make_host_handle, end_handle}},
    {"array", {make_array, end_array}},
    {"array_3d", {make_array_3d, end_array}},
    {"mipmap", {make_mipmap, end_mipmap}},
    {"external", {make_external, end_external}},
    {"context", {make_context, end_context}},
    {"module", {make_module, end_module}},
    {"graph", {make_graph, nullptr}},
};

struct Run {
  Kind kind;
  std::string order;
  int threads;
  std::size_t bytes;
  std::mutex mutex;
  std::vector<Made> live;
  std::atomic<int> code{0};  // of the refusal
  std::atomic<std::size_t> most{0};

  void note() {
    const std::size_t now = used();
    std::size_t known = most.load();
    while (known < now && !most.compare_exchange_weak(known, now)) {
    }
  }

  bool make(const Kind& of, std::size_t size) {
    Made what = 0;
    const int refused = of.make(size, &what);
    note();
    if (refused != 0) {
      code.store(refused);
      return false;
    }
    const std::lock_guard lock(mutex);
    live.push_back(what);
    return true;
  }

  void end_all(const Kind& of) {
    for (const Made what : live)
      if (const int failed = of.end(what); failed != 0) std::printf("end %d\n", failed);
    live.clear();
    call("cuCtxSynchronize");
  }

  // The size of the piece after the first `number`.
  std::size_t size_of(std::size_t number) const {
    if (order != "varied") return bytes;
    return kind.make == make_handle ? bytes - number % 3 * 2 * kMiB  // the granularity
                                    : bytes - number % 97 * (kMiB / 64);
  }

  std::size_t fill() {
    std::size_t sum = 0;
    for (int i = 0; i < kMost && live.size() < kMost; ++i) {
      const std::size_t size = size_of(static_cast<std::size_t>(i));
      if (!make(kind, size)) break;
      sum += size;
    }
    return sum;
  }

  void race() {
    std::vector<std::thread> all;
    for (int t = 0; t < threads; ++t) {
      all.emplace_back([this, t] {
        unsigned seed = 4711U * static_cast<unsigned>(t + 1);
        if (order == "changing") call("cuCtxSetCurrent", context);
        for (int i = 0; i < 60; ++i) {
          CUstream stream = nullptr;
          if (order == "changing" && (call("cuStreamCreate", &stream, 0U) != 0 ||
                                      call("cuStreamDestroy_v2", stream) != 0))
            std::exit(4);
          if (rand_r(&seed) % 3 != 0) {
            (void)make(kind, bytes);
            continue;
          }
          Made what = 0;
          {
            const std::lock_guard lock(mutex);
            if (live.empty()) continue;
            what = live.back();
            live.pop_back();
          }
          if (kind.end(what) != 0) std::exit(4);
        }
      });
    }
    for (std::thread& each : all)
      each.join();
  }
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5 || !kKinds.contains(argv[1])) return 2;
  Run run{kKinds.at(argv[1]), argv[2], std::atoi(argv[3]), std::strtoull(argv[4], nullptr, 10)};
  const Kind plain = kKinds.at("plain");
  calls::library = dlopen("libcuda.so.1", RTLD_NOW);
  if (calls::library == nullptr || call("cuInit", 0U) != 0) return 3;
  if (call("cuDevicePrimaryCtxRetain", &context, 0) != 0) return 5;
  call("cuCtxSetCurrent", context);
  if (argv[1] == std::string("pool")) {
    CUmemPoolProps properties{};
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
    call("cuMemPoolCreate", &pool, &properties);
    cuuint64_t keep = ~0ULL;
    call("cuMemPoolSetAttribute", pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep);
  }
  std::size_t before = 0;
  if (run.order == "again") {
    run.fill();
    run.end_all(run.kind);
  } else if (run.order == "cached") {
    while (run.make(plain, run.bytes)) {
    }
    run.end_all(plain);
  } else if (run.order == "mixed") {
    for (int i = 0; i < run.threads; ++i)
      before += run.make(plain, run.bytes) ? run.bytes : 0;
  } else if (run.order == "failing") {
    for (int i = 0; i < kFailures; ++i) {
      Made none = 0;
      const int failed =
          run.kind.make(run.bytes + 1, &none);  // a size that handles do not have
      if (failed == 0 || failed == CUDA_ERROR_OUT_OF_MEMORY) return 6;
    }
  } else if (run.order == "racing" || run.order == "changing") {
    run.race();
    run.end_all(run.kind);
  } else if (run.order == "later") {
    for (int i = 0; i < 8; ++i)
      if (!run.make(run.kind, run.bytes)) return 7;
    call("cuCtxSetCurrent", context);  // else the one that was made last
    run.kind = plain;
  } else if (run.order == "released") {
    for (int i = 0; i < run.threads; ++i)
      if (!run.make(run.kind, run.bytes)) return 7;
    run.end_all(run.kind);
    for (int i = 0; i < 4; ++i)
      if (!run.make(kKinds.at("context"), 0)) return 7;
    call("cuCtxSetCurrent", context);
  } else if (run.order == "without_context") {
    call("cuCtxSetCurrent", CUcontext{});
  }
  const std::size_t had = before + run.fill();
  std::size_t free_bytes = 0;
  std::size_t total = 0;
  call("cuCtxSetCurrent", context);
  call("cuMemGetInfo_v2", &free_bytes, &total);
  unsigned long long told[3] = {0, 0, 0};
  nvml("nvmlDeviceGetMemoryInfo", nvml_device(), told);
  std::printf("%zu %d %zu %zu %zu %llu %llu %llu\n",
              had,
              run.code.load(),
              run.most.load(),
              free_bytes,
              total,
              told[1],
              told[0],
              told[2]);
  std::fflush(stdout);
  if (std::getenv("STAY") != nullptr) (void)getchar();
  _exit(0);
}
