// SPDX-License-Identifier: MIT
// The cases through the CUDA runtime, as any program calls it: bare or with custash preloaded,
// on a GPU or over the simulator. Google Benchmark's options; plug-ins are named in
// CUSTASH_BENCH_PEERS, a list of shared objects with ':' between.
#include "interpose/api/custash.h"
#include "tests/bench/peer.hpp"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>

#include <benchmark/benchmark.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

namespace bench {
namespace {

void must(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}

void* stream_new() {
  cudaStream_t stream = nullptr;
  must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  return stream;
}

void submit(void* stream) {
  static void* const target = [] {
    void* block = nullptr;
    must(cudaMalloc(&block, 512), "cudaMalloc");
    return block;
  }();
  must(cudaMemsetAsync(target, 0, 4, static_cast<cudaStream_t>(stream)), "cudaMemsetAsync");
}

// A fill takes about as long as memory takes it: 80 MiB at 4 TB/s.
void work(void* stream) {
  constexpr std::size_t kBytes = std::size_t{80} << 20;
  static void* const target = [] {
    void* block = nullptr;
    must(cudaMalloc(&block, kBytes), "cudaMalloc");
    return block;
  }();
  must(cudaMemsetAsync(target, 0, kBytes, static_cast<cudaStream_t>(stream)),
       "cudaMemsetAsync");
}

void record(void* stream) {
  thread_local const cudaEvent_t event = [] {
    cudaEvent_t made = nullptr;
    must(cudaEventCreateWithFlags(&made, cudaEventDisableTiming), "cudaEventCreate");
    return made;
  }();
  must(cudaEventRecord(event, static_cast<cudaStream_t>(stream)), "cudaEventRecord");
}

void write(void* block, void* stream) {
  must(cudaMemsetAsync(block, 0, 1, static_cast<cudaStream_t>(stream)), "cudaMemsetAsync");
}

// By NVML: a preloaded allocator may answer cudaMemGetInfo.
std::size_t used() {
  struct Memory {
    unsigned long long total, free, used;
  };

  static void* const library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return 0;
  static void* const handle = [] {
    char bus[32] = {};
    void* found = nullptr;
    auto* const init = reinterpret_cast<int (*)()>(dlsym(library, "nvmlInit_v2"));
    auto* const find = reinterpret_cast<int (*)(const char*, void**)>(
        dlsym(library, "nvmlDeviceGetHandleByPciBusId_v2"));
    must(cudaDeviceGetPCIBusId(bus, sizeof bus, 0), "cudaDeviceGetPCIBusId");
    return init() == 0 && find(bus, &found) == 0 ? found : nullptr;
  }();
  static auto* const ask =
      reinterpret_cast<int (*)(void*, Memory*)>(dlsym(library, "nvmlDeviceGetMemoryInfo"));
  Memory memory{};
  return handle != nullptr && ask(handle, &memory) == 0 ? memory.used : 0;
}

void* plain(std::size_t bytes, void*) {
  void* block = nullptr;
  return cudaMalloc(&block, bytes) == cudaSuccess ? block : nullptr;
}

void* named(std::size_t bytes, void* stream) {
  void* block = nullptr;
  return cudaMallocAsync(&block, bytes, static_cast<cudaStream_t>(stream)) == cudaSuccess
             ? block
             : nullptr;
}

void* pinned(std::size_t bytes, void*) {
  void* block = nullptr;
  return cudaMallocHost(&block, bytes) == cudaSuccess ? block : nullptr;
}

cudaMemPool_t pool() {
  cudaMemPool_t pool = nullptr;
  must(cudaDeviceGetDefaultMemPool(&pool, 0), "cudaDeviceGetDefaultMemPool");
  return pool;
}

// Whether memory comes from custash: it then holds what the first call got.
bool custash_serves() {
  must(cudaFree(plain(512, nullptr)), "cudaFree");
  auto* const reserved = reinterpret_cast<decltype(&custash_reserved_bytes)>(
      dlsym(RTLD_DEFAULT, "custash_reserved_bytes"));
  custash_counter_t bytes{};
  return reserved != nullptr && reserved(0, &bytes) == CUSTASH_SUCCESS && bytes.current != 0;
}

// Bare there is nothing to give back.
void trim_plain() {
  if (auto* const empty =
          reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "custash_empty_cache")))
    empty();
}

void trim_named() {
  must(cudaMemPoolTrimTo(pool(), 0), "cudaMemPoolTrimTo");
  trim_plain();
}

void keep_what_pools_hold() {
  std::uint64_t all = UINT64_MAX;
  must(cudaMemPoolSetAttribute(pool(), cudaMemPoolAttrReleaseThreshold, &all),
       "cudaMemPoolSetAttribute");
}

constexpr Peer kOwn[] = {
    {"cudaMalloc",
     Kind::Plain,
     plain,
     [](void* block, std::size_t, void*) { must(cudaFree(block), "cudaFree"); },
     trim_plain},
    {"cudaMallocAsync",
     Kind::Named,
     named,
     [](void* block, std::size_t, void* stream) {
       must(cudaFreeAsync(block, static_cast<cudaStream_t>(stream)), "cudaFreeAsync");
     },
     trim_named},
    {"cudaMallocHost",
     Kind::Pinned,
     pinned,
     [](void* block, std::size_t, void*) { must(cudaFreeHost(block), "cudaFreeHost"); },
     nullptr},
};

// Plug-ins are never unloaded: their caches live to the end. The others do without one that
// fails.
void register_plug_ins(const char* list) {
  std::stringstream each(list);
  for (std::string path; std::getline(each, path, ':');) {
    void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    void* const symbol = library == nullptr ? nullptr : dlsym(library, "bench_peer");
    if (symbol == nullptr) {
      std::fprintf(stderr, "plug-in: %s\n", dlerror());
      continue;
    }
    register_cases(*reinterpret_cast<const Peer* (*)()>(symbol)());
  }
}

}  // namespace

const Device device{
    [] { must(cudaSetDevice(0), "cudaSetDevice"); },
    stream_new,
    submit,
    work,
    record,
    [] { must(cudaDeviceSynchronize(), "cudaDeviceSynchronize"); },
    write,
    used,
};

}  // namespace bench

int main(int argc, char** argv) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::fprintf(stderr, "skip: no GPU\n");
    return 77;
  }
  bench::device.enter();
  bench::keep_what_pools_hold();
  benchmark::AddCustomContext("custash", bench::custash_serves() ? "serves" : "absent");
  for (const bench::Peer& peer : bench::kOwn)
    bench::register_cases(peer);
  bench::register_control();
  const char* const list = std::getenv("CUSTASH_BENCH_PEERS");
  if (list != nullptr) bench::register_plug_ins(list);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
}
