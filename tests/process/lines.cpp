// SPDX-License-Identifier: MIT
// Two threads take turns at calls that hit, one kind of them after the other, and say by stores
// to a word of their own whose turn it is: lines.py reads the addresses of all that is loaded
// and stored from a trace, and knows by these words which thread it was, and at what.
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <semaphore>
#include <thread>

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <link.h>

namespace {

constexpr int kTurns = 8;
constexpr int kQuietTurns = 4;  // in which the magazines get what they need
constexpr int kMostLive = 10;   // a thread's magazine holds as many

// The fault that must be found: counters side by side.
struct {
  alignas(64) std::atomic<int> of[2];
} planted;

cudaStream_t streams[2];  // one for each thread

void must(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::printf("error %d\n", error);
  std::_Exit(1);
}

struct Kind {
  const char* name;
  std::size_t bytes;
  int live;  // blocks at a time
  void (*allocate)(int who, void** block, std::size_t bytes);
  void (*release)(int who, void* block);
  bool first = false;  // of its size class in its pool
};

void plain(int, void** block, std::size_t bytes) {
  must(cudaMalloc(block, bytes));
}

void plain_free(int, void* block) {
  must(cudaFree(block));
}

void planted_free(int who, void* block) {
  must(cudaFree(block));
  planted.of[who].fetch_add(1);
}

void named(int who, void** block, std::size_t bytes) {
  must(cudaMallocAsync(block, bytes, streams[who]));
}

void named_free(int who, void* block) {
  must(cudaFreeAsync(block, streams[who]));
}

void same(int, void** block, std::size_t bytes) {
  must(cudaMallocAsync(block, bytes, streams[0]));
}

void same_free(int, void* block) {
  must(cudaFreeAsync(block, streams[0]));
}

// By the driver's door, as a static runtime calls it.
template <typename Function>
Function driver(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}

void by_driver(int, void** block, std::size_t bytes) {
  static const auto call = driver<int (*)(void**, std::size_t)>("cuMemAlloc_v2");
  must(static_cast<cudaError_t>(call(block, bytes)));
}

void by_driver_free(int, void* block) {
  static const auto call = driver<int (*)(void*)>("cuMemFree_v2");
  must(static_cast<cudaError_t>(call(block)));
}

constexpr Kind kKinds[] = {
    {"planted", 512, 1, plain, planted_free, true},
    {"512_bytes", 512, 1, plain, plain_free},
    {"64_KiB", 64 << 10, 1, plain, plain_free, true},
    {"8_MiB", 8 << 20, 1, plain, plain_free},
    {"ten_of_512_bytes", 512, kMostLive, plain, plain_free},
    {"by_the_driver", 64 << 10, 1, by_driver, by_driver_free},
    {"own_streams", 64 << 10, 1, named, named_free, true},
    {"one_stream", 64 << 10, 1, same, same_free},
};

constexpr int kUntilSlabs = 256;  // requests of a class in a pool before they are hits

volatile int begins[std::size(kKinds)][2];
volatile int ends;

void pass(int who, const Kind& kind) {
  std::array<void*, kMostLive> blocks{};
  for (int i = 0; i < kind.live; ++i)
    kind.allocate(who, &blocks[i], kind.bytes);
  for (int i = 0; i < kind.live; ++i)
    kind.release(who, blocks[i]);
}

std::binary_semaphore turns[2] = {std::binary_semaphore(1), std::binary_semaphore(0)};

void run(int who) {
  must(cudaSetDevice(0));
  for (std::size_t kind = 0; kind < std::size(kKinds); ++kind) {
    for (int turn = 0; turn < kTurns; ++turn) {
      turns[who].acquire();
      for (int i = 0; turn == 0 && kKinds[kind].first && i < kUntilSlabs; ++i)
        pass(who, kKinds[kind]);
      if (turn >= kQuietTurns) begins[kind][who] = turn;
      pass(who, kKinds[kind]);
      if (turn >= kQuietTurns) ends = turn;
      turns[1 - who].release();
    }
  }
}

// Where its code lies: `module BASE BEGIN END NAME`.
int say_module(dl_phdr_info* module, std::size_t, void*) {
  for (int i = 0; i < module->dlpi_phnum; ++i) {
    const auto& part = module->dlpi_phdr[i];
    if (part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0) continue;
    const std::uintptr_t begin = module->dlpi_addr + part.p_vaddr;
    std::printf("module %zx %zx %zx %s\n",
                static_cast<std::size_t>(module->dlpi_addr),
                begin,
                begin + part.p_memsz,
                module->dlpi_name);
  }
  return 0;
}

}  // namespace

int main() {
  for (cudaStream_t& stream : streams)
    must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  std::thread other(run, 1);
  run(0);
  other.join();
  for (std::size_t kind = 0; kind < std::size(kKinds); ++kind)
    for (int who : {0, 1})
      std::printf("begin %zx %s %d\n",
                  reinterpret_cast<std::uintptr_t>(&begins[kind][who]),
                  kKinds[kind].name,
                  who);
  std::printf("end %zx\n", reinterpret_cast<std::uintptr_t>(&ends));
  dl_iterate_phdr(say_module, nullptr);
}
