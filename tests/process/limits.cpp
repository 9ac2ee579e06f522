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
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
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

constexpr int kMost = 100'000;
constexpr int kFailures = 1000;
constexpr std::size_t kMiB = std::size_t{1} << 20U;

#define CALLS(X)              \
  X(cuInit)                   \
  X(cuDevicePrimaryCtxRetain) \
  X(cuCtxSetCurrent)          \
  X(cuCtxSynchronize)         \
  X(cuCtxSetLimit)            \
  X(cuMemAllocManaged)        \
  X(cuMemCreate)              \
  X(cuMemRelease)             \
  X(cuArrayDestroy)           \
  X(cuMipmappedArrayCreate)   \
  X(cuMipmappedArrayDestroy)  \
  X(cuImportExternalMemory)   \
  X(cuDestroyExternalMemory)  \
  X(cuMemPoolCreate)          \
  X(cuDeviceSetMemPool)       \
  X(cuMemPoolSetAttribute)    \
  X(cuGraphInstantiate)       \
  X(cuGraphLaunch)            \
  X(cuStreamCreate)           \
  X(cuModuleLoadData)         \
  X(cuModuleUnload)
#define NEWER(X)                                \
  X(destroy_context, cuCtxDestroy, _v2)         \
  X(destroy_stream, cuStreamDestroy, _v2)       \
  X(alloc, cuMemAlloc, _v2)                     \
  X(free, cuMemFree, _v2)                       \
  X(alloc_pitch, cuMemAllocPitch, _v2)          \
  X(alloc_async, cuMemAllocAsync, )             \
  X(alloc_from_pool, cuMemAllocFromPoolAsync, ) \
  X(free_async, cuMemFreeAsync, )               \
  X(array, cuArrayCreate, _v2)                  \
  X(array_3d, cuArray3DCreate, _v2)             \
  X(mem_info, cuMemGetInfo, _v2)                \
  X(begin_capture, cuStreamBeginCapture, _v2)   \
  X(end_capture, cuStreamEndCapture, )

struct Driver {
#define POINTER(name) decltype(&::name) name;
  CALLS(POINTER)
#undef POINTER
#define POINTER(member, name, form) decltype(&::name) member;
  NEWER(POINTER)
#undef POINTER
  CUresult (*create_context)(CUcontext*, unsigned, CUdevice);  // the oldest form
} cu;

struct ProcessUse {
  unsigned pid;
  unsigned long long used;
  unsigned instances[2];
};

void* in(const char* file, const char* name) {
  void* const library = dlopen(file, RTLD_NOW);
  void* const found = library == nullptr ? nullptr : dlsym(library, name);
  if (found == nullptr) std::exit(3);
  return found;
}

template <typename Function>
void find(Function* out, const char* name) {
  *out = reinterpret_cast<Function>(in("libcuda.so.1", name));
}

void start() {
#define FIND(name) find(&cu.name, #name);
  CALLS(FIND)
#undef FIND
#define FIND(member, name, form) find(&cu.member, #name #form);
  NEWER(FIND)
#undef FIND
  find(&cu.create_context, "cuCtxCreate_v2");
}

// What NVML counts for this process.
std::size_t used() {
  using Ask = int(void*, unsigned*, ProcessUse*);
  static auto* const ask = reinterpret_cast<Ask*>(
      in("libnvidia-ml.so.1", "nvmlDeviceGetComputeRunningProcesses_v3"));
  static void* const device = [] {
    void* handle = nullptr;
    if (reinterpret_cast<int (*)()>(in("libnvidia-ml.so.1", "nvmlInit_v2"))() != 0)
      std::exit(3);
    reinterpret_cast<int (*)(unsigned, void**)>(
        in("libnvidia-ml.so.1", "nvmlDeviceGetHandleByIndex_v2"))(0, &handle);
    return handle;
  }();
  ProcessUse list[64];
  unsigned count = 64;
  if (ask(device, &count, list) != 0) std::exit(3);
  for (unsigned i = 0; i < count; ++i)
    if (list[i].pid == static_cast<unsigned>(getpid())) return list[i].used;
  return 0;
}

struct Made {
  unsigned long long number = 0;
};

template <typename Pointer>
Made made(Pointer* pointer) {
  return {reinterpret_cast<unsigned long long>(pointer)};
}

template <typename Handle>
Handle handle(Made what) {
  return reinterpret_cast<Handle>(what.number);
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
#else
using Pointer = CUdeviceptr;
#endif

template <typename Call>
int make_address(Made* out, Call call) {
  Pointer at{};
  const int code = call(&at);
  std::memcpy(&out->number, &at, sizeof at);
  return code;
}

int free_plain(Made what) {
#ifdef RUNTIME
  return cudaFree(handle<void*>(what));
#else
  return cu.free(what.number);
#endif
}

int free_async(Made what) {
#ifdef RUNTIME
  return cudaFreeAsync(handle<void*>(what), nullptr);
#else
  return cu.free_async(what.number, nullptr);
#endif
}

int make_plain(std::size_t bytes, Made* out) {
  return make_address(out, [&](Pointer* at) {
#ifdef RUNTIME
    return cudaMalloc(at, bytes);
#else
    return cu.alloc(at, bytes);
#endif
  });
}

int make_async(std::size_t bytes, Made* out) {
  return make_address(out, [&](Pointer* at) {
#ifdef RUNTIME
    return cudaMallocAsync(at, bytes, nullptr);
#else
    return cu.alloc_async(at, bytes, nullptr);
#endif
  });
}

int make_from_pool(std::size_t bytes, Made* out) {
  return make_address(out, [&](Pointer* at) {
#ifdef RUNTIME
    return cudaMallocFromPoolAsync(at, bytes, reinterpret_cast<cudaMemPool_t>(pool), nullptr);
#else
    return cu.alloc_from_pool(at, bytes, pool, nullptr);
#endif
  });
}

int make_pitched(std::size_t bytes, Made* out) {
  std::size_t pitch = 0;
  return make_address(out, [&](Pointer* at) {
#ifdef RUNTIME
    return cudaMallocPitch(at, &pitch, bytes / 1024, 1024);
#else
    return cu.alloc_pitch(at, &pitch, bytes / 1024, 1024, 4);
#endif
  });
}

int make_managed(std::size_t bytes, Made* out) {
  return make_address(out, [&](Pointer* at) {
#ifdef RUNTIME
    return cudaMallocManaged(at, bytes, cudaMemAttachGlobal);
#else
    return cu.cuMemAllocManaged(at, bytes, 1);
#endif
  });
}

int make_handle(std::size_t bytes, Made* out) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
  return cu.cuMemCreate(&out->number, bytes, &properties, 0);
}

// Of the host: its location's number is no device's.
int make_host_handle(std::size_t bytes, Made* out) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {.type = static_cast<CUmemLocationType>(3), .id = 0};
  return cu.cuMemCreate(&out->number, bytes, &properties, 0);
}

int end_handle(Made what) {
  return cu.cuMemRelease(what.number);
}

int make_array(std::size_t bytes, Made* out) {
  CUarray array = nullptr;
  const CUDA_ARRAY_DESCRIPTOR what = {kWidth / 4, bytes / kWidth, CU_AD_FORMAT_FLOAT, 1};
  const int code = cu.array(&array, &what);
  *out = made(array);
  return code;
}

int make_array_3d(std::size_t bytes, Made* out) {
  CUarray array = nullptr;
  const CUDA_ARRAY3D_DESCRIPTOR what = floats(bytes);
  const int code = cu.array_3d(&array, &what);
  *out = made(array);
  return code;
}

int end_array(Made what) {
  return cu.cuArrayDestroy(handle<CUarray>(what));
}

int make_mipmap(std::size_t bytes, Made* out) {
  CUmipmappedArray array = nullptr;
  const CUDA_ARRAY3D_DESCRIPTOR what = floats(bytes);
  const int code = cu.cuMipmappedArrayCreate(&array, &what, 1);
  *out = made(array);
  return code;
}

int end_mipmap(Made what) {
  return cu.cuMipmappedArrayDestroy(handle<CUmipmappedArray>(what));
}

int make_external(std::size_t bytes, Made* out) {
  CUDA_EXTERNAL_MEMORY_HANDLE_DESC what{};
  what.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD;
  what.handle.fd = memfd_create("external", MFD_CLOEXEC);
  what.size = bytes;
  if (ftruncate(what.handle.fd, static_cast<off_t>(bytes)) != 0) std::exit(3);
  CUexternalMemory memory = nullptr;
  const int code = cu.cuImportExternalMemory(&memory, &what);
  if (code != 0) close(what.handle.fd);
  *out = made(memory);
  return code;
}

int end_external(Made what) {
  return cu.cuDestroyExternalMemory(handle<CUexternalMemory>(what));
}

int make_context(std::size_t, Made* out) {
  CUcontext context = nullptr;
  const int code = cu.create_context(&context, 0, 0);
  *out = made(context);
  return code;
}

int end_context(Made what) {
  return cu.destroy_context(handle<CUcontext>(what));
}

int make_module(std::size_t, Made* out) {
  CUmodule module = nullptr;
  const int code =
      cu.cuModuleLoadData(&module, ".version 7.0\n.target sm_52\n.address_size 64\n");
  *out = made(module);
  return code;
}

int end_module(Made what) {
  return cu.cuModuleUnload(handle<CUmodule>(what));
}

// A graph that allocates when it runs.
int make_graph(std::size_t bytes, Made* out) {
  CUstream stream = nullptr;
  CUgraph graph = nullptr;
  CUdeviceptr at = 0;
  int code = cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
  if (code == 0) code = cu.begin_capture(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
  if (code != 0) return code;
  code = cu.alloc_async(&at, bytes, stream);
  const int ended = cu.end_capture(stream, &graph);
  *out = made(graph);
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
  CUcontext context = nullptr;
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
    Made what;
    const int made = of.make(size, &what);
    note();
    if (made != 0) {
      code.store(made);
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
    cu.cuCtxSynchronize();
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
        if (order == "changing") cu.cuCtxSetCurrent(context);
        for (int i = 0; i < 60; ++i) {
          CUstream stream = nullptr;
          if (order == "changing" &&
              (cu.cuStreamCreate(&stream, 0) != 0 || cu.destroy_stream(stream) != 0))
            std::exit(4);
          if (rand_r(&seed) % 3 != 0) {
            (void)make(kind, bytes);
            continue;
          }
          Made what;
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
  start();
  Run run{kKinds.at(argv[1]), argv[2], std::atoi(argv[3]), std::strtoull(argv[4], nullptr, 10)};
  const Kind plain = kKinds.at("plain");
  CUcontext& context = run.context;
  if (cu.cuInit(0) != 0) return 3;
  if (cu.cuDevicePrimaryCtxRetain(&context, 0) != 0) return 5;
  cu.cuCtxSetCurrent(context);
  if (argv[1] == std::string("pool") || std::getenv("OWN_POOL") != nullptr) {
    CUmemPoolProps properties{};
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
    cu.cuMemPoolCreate(&pool, &properties);
    cuuint64_t keep = ~0ULL;
    cu.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep);
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
      Made none;
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
    cu.cuCtxSetCurrent(context);  // else the one that was made last
    run.kind = plain;
  } else if (run.order == "released") {
    for (int i = 0; i < run.threads; ++i)
      if (!run.make(run.kind, run.bytes)) return 7;
    run.end_all(run.kind);
    for (int i = 0; i < 4; ++i)
      if (!run.make(kKinds.at("context"), 0)) return 7;
    cu.cuCtxSetCurrent(context);
  } else if (run.order == "without_context") {
    cu.cuCtxSetCurrent(nullptr);
  }
  const std::size_t had = before + run.fill();
  std::size_t free_bytes = 0;
  std::size_t total = 0;
  cu.cuCtxSetCurrent(context);
  cu.mem_info(&free_bytes, &total);
  unsigned long long told[3] = {0, 0, 0};
  void* device = nullptr;
  reinterpret_cast<int (*)(unsigned, void**)>(
      in("libnvidia-ml.so.1", "nvmlDeviceGetHandleByIndex_v2"))(0, &device);
  reinterpret_cast<int (*)(void*, void*)>(in("libnvidia-ml.so.1", "nvmlDeviceGetMemoryInfo"))(
      device, told);
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
