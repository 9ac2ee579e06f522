// SPDX-License-Identifier: MIT
// Small programs that use memory on several streams, right or wrong in one way each. Argument:
// which. check_streams.py knows what is to be found in each.
#include "tests/process/parameters.hpp"
#include "tests/sim/detector_abi.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <cuda.h>
#include <dlfcn.h>
#include <malloc.h>

namespace {

void* library = nullptr;
CUcontext context = nullptr;

template <typename... Args>
int call(const char* symbol, Args... args) {
  auto* const function = reinterpret_cast<CUresult (*)(Args...)>(dlsym(library, symbol));
  if (function == nullptr) {
    std::printf("no %s\n", symbol);
    std::exit(3);
  }
  return function(args...);
}

void need(int code, const char* what) {
  if (code == 0) return;
  std::printf("%s answered %d\n", what, code);
  std::exit(4);
}

#define CALL(symbol, ...) need(call(#symbol, ##__VA_ARGS__), #symbol)

constexpr std::size_t kBytes = 100'000;  // no multiple of 512: nothing begins at its end

// On a GPU: the kernels of tests/gpu/check_streams_kernels.cu. The simulator takes any image.
std::string image() {
  const char* const path = std::getenv("CUSTASH_TEST_IMAGE");
  if (path == nullptr) return "image";
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

CUfunction function(const char* name) {
  static CUmodule module = nullptr;
  if (module == nullptr)
    CALL(cuModuleLoadData, &module, static_cast<const void*>(image().c_str()));
  CUfunction out = nullptr;
  CALL(cuModuleGetFunction, &out, module, name);
  return out;
}

CUstream stream(unsigned flags = CU_STREAM_NON_BLOCKING) {
  CUstream out = nullptr;
  CALL(cuStreamCreate, &out, flags);
  return out;
}

CUdeviceptr plain(std::size_t bytes = kBytes) {
  CUdeviceptr out = 0;
  CALL(cuMemAlloc_v2, &out, bytes);
  return out;
}

CUdeviceptr on(CUstream s, std::size_t bytes = kBytes) {
  CUdeviceptr out = 0;
  CALL(cuMemAllocAsync, &out, bytes, s);
  return out;
}

void free_on(CUdeviceptr block, CUstream s) {
  CALL(cuMemFreeAsync, block, s);
}

void launch(CUfunction what, CUstream s, std::initializer_list<const void*> params) {
  CALL(cuLaunchKernel,
       what,
       1U,
       1U,
       1U,
       1U,
       1U,
       1U,
       0U,
       s,
       const_cast<void**>(params.begin()),
       static_cast<void**>(nullptr));
}

void use(CUdeviceptr block, CUstream s) {
  launch(function("one"), s, {&block});
}

CUevent event() {
  CUevent out = nullptr;
  CALL(cuEventCreate, &out, unsigned{CU_EVENT_DISABLE_TIMING});
  return out;
}

CUevent recorded(CUstream s) {
  const CUevent out = event();
  CALL(cuEventRecord, out, s);
  return out;
}

void wait(CUstream s, CUevent e) {
  CALL(cuStreamWaitEvent, s, e, 0U);
}

// `to` comes after all that `from` has.
void order(CUstream from, CUstream to) {
  wait(to, recorded(from));
}

void* pinned() {
  void* out = nullptr;
  CALL(cuMemHostAlloc, &out, kBytes, 0U);
  return out;
}

// What most begin with: a block of stream a that stream b may use.
struct Two {
  CUstream a = stream();
  CUstream b = stream();
  CUdeviceptr block = on(a);

  Two() { order(a, b); }
};

template <typename Body>
void in_thread(Body body) {
  std::thread([&] {
    CALL(cuCtxSetCurrent, context);
    body();
  }).join();
}

using Program = void (*)();

void by_struct(CUdeviceptr block, CUstream s) {
  const unsigned number = 1;
  ByValue value{};
  value.nested[2] = reinterpret_cast<void*>(block + 8);
  launch(function("by_value"), s, {&number, &value});
}

// Bare there is nothing to call.
void record(CUdeviceptr block, CUstream s) {
  static auto* const call =
      reinterpret_cast<int (*)(void*, void*)>(dlsym(RTLD_DEFAULT, "custash_record_stream"));
  if (call != nullptr) need(call(reinterpret_cast<void*>(block), s), "custash_record_stream");
}

std::size_t heap_in_use() {
  const struct mallinfo2 now = mallinfo2();
  return now.uordblks + now.hblkhd;
}

void graph_of(CUstream s, CUdeviceptr block, CUgraphExec* out) {
  CUgraph graph = nullptr;
  CALL(cuStreamBeginCapture_v2, s, CU_STREAM_CAPTURE_MODE_RELAXED);
  use(block, s);
  CALL(cuStreamEndCapture, s, &graph);
  CALL(cuGraphInstantiateWithFlags, out, graph, 0ULL);
}

void nothing(void*) {
}

const std::map<std::string, Program> kPrograms = {
    // ---- A free beside a use.
    {"free_beside_kernel",
     [] {
       Two two;
       use(two.block, two.b);
       free_on(two.block, two.a);
     }},
    {"free_beside_struct",
     [] {
       Two two;
       by_struct(two.block, two.b);
       free_on(two.block, two.a);
     }},
    {"free_beside_neighbours",
     [] {
       constexpr std::size_t kWhole = 1 << 20;
       Two two;
       std::vector<CUdeviceptr> blocks;
       for (int i = 0; i < 8; ++i)
         blocks.push_back(on(two.a, kWhole));
       std::sort(blocks.begin(), blocks.end());
       for (std::size_t i = 0; i + 1 < blocks.size(); ++i) {
         if (blocks[i] + kWhole != blocks[i + 1]) continue;
         order(two.a, two.b);
         // The first address of the kernel's lies where the block of its last one ends.
         ByValue value{};
         value.nested[0] = reinterpret_cast<void*>(blocks[i + 1]);
         value.nested[1] = reinterpret_cast<void*>(two.block);
         value.nested[2] = reinterpret_cast<void*>(blocks[i]);
         const unsigned first = 0;
         launch(function("by_value"), two.b, {&first, &value});
         free_on(blocks[i + 1], two.a);
         return;
       }
       std::exit(6);
     }},
    {"free_beside_buffer",
     [] {
       Two two;
       CUdeviceptr words[] = {two.block, 7};
       std::size_t bytes = sizeof words;
       void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER,
                        words,
                        CU_LAUNCH_PARAM_BUFFER_SIZE,
                        &bytes,
                        CU_LAUNCH_PARAM_END};
       CALL(cuLaunchKernel,
            function("touch"),
            1U,
            1U,
            1U,
            1U,
            1U,
            1U,
            0U,
            two.b,
            static_cast<void**>(nullptr),
            static_cast<void**>(extra));
       free_on(two.block, two.a);
     }},
    {"free_beside_launch_ex",
     [] {
       Two two;
       CUlaunchConfig config{};
       config.gridDimX = config.gridDimY = config.gridDimZ = 1;
       config.blockDimX = config.blockDimY = config.blockDimZ = 1;
       config.hStream = two.b;
       void* params[] = {&two.block};
       CALL(cuLaunchKernelEx,
            static_cast<const CUlaunchConfig*>(&config),
            function("one"),
            static_cast<void**>(params),
            static_cast<void**>(nullptr));
       free_on(two.block, two.a);
     }},
    {"free_beside_memset",
     [] {
       Two two;
       const unsigned char value = 1;
       CALL(cuMemsetD8Async, two.block, value, kBytes, two.b);
       free_on(two.block, two.a);
     }},
    {"free_beside_copy",
     [] {
       Two two;
       const CUdeviceptr other = plain();
       CALL(cuMemcpyDtoDAsync_v2, other, two.block, kBytes, two.b);
       free_on(two.block, two.a);
     }},
    {"free_beside_copy_to_pinned",
     [] {
       Two two;
       CALL(cuMemcpyDtoHAsync_v2, pinned(), two.block, kBytes, two.b);
       free_on(two.block, two.a);
     }},
    {"free_beside_rows",
     [] {
       Two two;
       CUDA_MEMCPY2D copy{};
       copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
       copy.srcDevice = two.block;
       copy.dstDevice = plain();
       copy.srcPitch = copy.dstPitch = 1000;
       copy.WidthInBytes = 100;
       copy.Height = 10;
       CALL(cuMemcpy2DAsync_v2, static_cast<const CUDA_MEMCPY2D*>(&copy), two.b);
       free_on(two.block, two.a);
     }},
    {"free_of_plain_memory",
     [] {
       const CUstream a = stream();
       const CUstream b = stream();
       const CUdeviceptr block = plain();
       use(block, b);
       free_on(block, a);
     }},
    {"event_too_early",
     [] {
       Two two;
       const CUevent e = recorded(two.b);
       use(two.block, two.b);
       wait(two.a, e);
       free_on(two.block, two.a);
     }},
    {"event_of_another_stream",
     [] {
       Two two;
       const CUstream c = stream();
       use(two.block, two.b);
       order(c, two.a);
       free_on(two.block, two.a);
     }},
    {"event_recorded_anew",
     [] {
       Two two;
       const CUevent e = event();
       use(two.block, two.b);
       CALL(cuEventRecord, e, two.b);
       CALL(cuEventRecord, e, two.a);
       wait(two.a, e);
       free_on(two.block, two.a);
     }},
    {"one_of_two_streams",
     [] {
       Two two;
       const CUstream c = stream();
       order(two.a, c);
       use(two.block, two.b);
       use(two.block, c);
       order(two.b, two.a);
       free_on(two.block, two.a);
     }},
    {"default_beside_non_blocking",
     [] {
       const CUstream b = stream();
       const CUdeviceptr block = on(nullptr);
       order(nullptr, b);
       use(block, b);
       free_on(block, nullptr);
     }},
    {"per_thread_streams",
     [] {
       CUdeviceptr block = 0;
       CALL(cuMemAllocAsync_ptsz, &block, kBytes, static_cast<CUstream>(nullptr));
       CALL(cuStreamSynchronize_ptsz, static_cast<CUstream>(nullptr));
       in_thread([&] { use(block, CU_STREAM_PER_THREAD); });
       CALL(cuMemFreeAsync_ptsz, block, static_cast<CUstream>(nullptr));
     }},
    {"threads",
     [] {
       Two two;
       in_thread([&] { use(two.block, two.b); });
       in_thread([&] { free_on(two.block, two.a); });
     }},
    {"waited_too_early",
     [] {
       Two two;
       CALL(cuStreamSynchronize, two.b);
       use(two.block, two.b);
       free_on(two.block, two.a);
     }},
    // ---- A use after the free.
    {"after_free_same_stream",
     [] {
       Two two;
       free_on(two.block, two.a);
       use(two.block, two.a);
     }},
    {"after_free_other_stream",
     [] {
       Two two;
       free_on(two.block, two.a);
       use(two.block, two.b);
     }},
    {"after_free_in_order",
     [] {
       Two two;
       free_on(two.block, two.a);
       order(two.a, two.b);
       by_struct(two.block, two.b);
     }},
    {"after_free_memset",
     [] {
       Two two;
       const unsigned value = 1;
       use(two.block, two.a);  // so that guards keep the pages
       free_on(two.block, two.a);
       CALL(cuMemsetD32Async, two.block, value, std::size_t{10}, two.b);
     }},
    {"after_free_copy",
     [] {
       Two two;
       free_on(two.block, two.a);
       CALL(cuMemcpyHtoDAsync_v2, two.block, static_cast<const void*>(pinned()), kBytes, two.b);
     }},
    {"after_plain_free",
     [] {
       const CUdeviceptr block = plain();
       CALL(cuMemFree_v2, block);
       use(block, stream());
     }},
    // ---- A use beside the allocation.
    {"allocation_not_ordered",
     [] {
       const CUstream a = stream();
       const CUstream b = stream();
       use(on(a), b);
     }},
    {"allocation_after_event",
     [] {
       const CUstream a = stream();
       const CUstream b = stream();
       const CUevent e = recorded(a);
       const CUdeviceptr block = on(a);
       wait(b, e);
       use(block, b);
     }},
    {"allocation_beside_default",
     [] {
       const CUstream b = stream();
       use(on(nullptr), b);
     }},
    {"allocation_in_thread",
     [] {
       CUdeviceptr block = 0;
       in_thread(
           [&] { CALL(cuMemAllocAsync_ptsz, &block, kBytes, static_cast<CUstream>(nullptr)); });
       use(block, CU_STREAM_PER_THREAD);
     }},

    // By an address inside the block.
    {"after_free_inside",
     [] {
       Two two;
       free_on(two.block, two.a);
       use(two.block + 4096, two.a);
     }},

    // ---- Bugs of others, rebuilt. A table's columns are freed on the idle stream of the pool
    // that made them, while their reader's cast still runs.
    {"columns_of_an_idle_pool_stream",
     [] {
       const CUstream pool = stream();
       const CUstream consumer = stream();
       std::vector<CUdeviceptr> columns;
       for (int i = 0; i < 3; ++i)
         columns.push_back(on(pool));
       for (const CUdeviceptr each : columns)
         CALL(cuMemcpyHtoDAsync_v2, each, static_cast<const void*>(pinned()), kBytes, pool);
       CALL(cuStreamSynchronize, pool);
       const CUdeviceptr cast = on(consumer);
       launch(function("touch"), consumer, {&columns[1], &cast});
       free_on(columns[1], pool);
       CALL(cuMemsetD8Async, on(pool), static_cast<unsigned char>(1), kBytes, pool);
     }},
    // A copy that names no stream goes to the default stream, beside the stream that allocates.
    {"copy_without_a_stream",
     [] {
       const CUstream training = stream();
       const CUdeviceptr mask = on(training);
       std::vector<char> host(kBytes);
       CALL(cuMemcpyHtoD_v2, mask, static_cast<const void*>(host.data()), kBytes);
     }},
    // An event orders the reader behind the writer; nothing orders the free behind the reader.
    {"event_orders_only_the_reader",
     [] {
       const CUstream indexer = stream();
       const CUstream caller = stream();
       const CUdeviceptr indices = on(indexer);
       use(indices, indexer);
       order(indexer, caller);
       use(indices, caller);
       free_on(indices, indexer);
     }},
    // A tensor is copied out on a side stream, and its memory given back on the main stream.
    {"stash_on_a_side_stream",
     [] {
       const CUstream main = stream();
       const CUstream side = stream();
       const CUdeviceptr tensor = on(main);
       use(tensor, main);
       order(main, side);
       CALL(cuMemcpyDtoHAsync_v2, pinned(), tensor, kBytes, side);
       free_on(tensor, main);
       use(on(main), main);
     }},
    // One thread moves a batch out while another thread's kernel reads it.
    {"downgrade_beside_a_reader",
     [] {
       Two two;
       const CUstream downgrade = stream();
       order(two.a, downgrade);
       in_thread([&] { use(two.block, two.b); });
       in_thread([&] {
         CALL(cuMemcpyDtoHAsync_v2, pinned(), two.block, kBytes, downgrade);
         CALL(cuStreamSynchronize, downgrade);
         free_on(two.block, downgrade);
       });
     }},

    // ---- Right.
    // Two numbers may look like an address within a block, or within one that was freed.
    {"right_numbers_in_structures",
     [] {
       Two two;
       const CUdeviceptr freed = on(two.a);
       const CUdeviceptr other = on(two.a);
       free_on(freed, two.a);
       const unsigned number = 1;
       ByValue value{};
       value.nested[0] = reinterpret_cast<void*>(freed + 4096);  // as sizes of a matrix
       value.nested[1] =
           reinterpret_cast<void*>(freed + 0x493);  // a factor in place of a division
       value.nested[2] = reinterpret_cast<void*>(two.block);
       value.nested[3] = reinterpret_cast<void*>(other + 0x2493);
       launch(function("by_value"), two.b, {&number, &value});
       free_on(other, two.a);
       order(two.b, two.a);
       free_on(two.block, two.a);
     }},
    {"right_event",
     [] {
       Two two;
       use(two.block, two.b);
       order(two.b, two.a);
       free_on(two.block, two.a);
     }},
    {"right_events_in_a_row",
     [] {
       Two two;
       const CUstream c = stream();
       use(two.block, two.b);
       order(two.b, c);
       order(c, two.a);
       free_on(two.block, two.a);
     }},
    {"right_free_on_the_user",
     [] {
       Two two;
       by_struct(two.block, two.b);
       free_on(two.block, two.b);
     }},
    {"right_stream_sync",
     [] {
       Two two;
       use(two.block, two.b);
       CALL(cuStreamSynchronize, two.b);
       free_on(two.block, two.a);
     }},
    {"right_query",
     [] {
       Two two;
       use(two.block, two.b);
       while (call("cuStreamQuery", two.b) != 0)
         ;
       free_on(two.block, two.a);
     }},
    {"right_event_sync",
     [] {
       Two two;
       use(two.block, two.b);
       const CUevent e = recorded(two.b);
       CALL(cuEventSynchronize, e);
       free_on(two.block, two.a);
     }},
    {"right_context_sync",
     [] {
       const CUstream a = stream();
       const CUstream b = stream();
       const CUdeviceptr block = on(a);
       CALL(cuCtxSynchronize);
       use(block, b);
       CALL(cuCtxSynchronize);
       free_on(block, a);
     }},
    {"right_default_stream",
     [] {
       const CUstream b = stream(CU_STREAM_DEFAULT);
       const CUdeviceptr block = on(nullptr);
       use(block, b);
       free_on(block, nullptr);
       const CUdeviceptr other = on(b);
       use(other, nullptr);
       free_on(other, b);
     }},
    {"right_per_thread_streams",
     [] {
       CUdeviceptr block = 0;
       CALL(cuMemAllocAsync_ptsz, &block, kBytes, static_cast<CUstream>(nullptr));
       CALL(cuStreamSynchronize_ptsz, static_cast<CUstream>(nullptr));
       in_thread([&] {
         use(block, CU_STREAM_PER_THREAD);
         CALL(cuStreamSynchronize_ptsz, static_cast<CUstream>(nullptr));
       });
       CALL(cuMemFreeAsync_ptsz, block, static_cast<CUstream>(nullptr));
     }},
    {"right_threads",
     [] {
       Two two;
       CUevent e = nullptr;
       in_thread([&] {
         use(two.block, two.b);
         e = recorded(two.b);
       });
       in_thread([&] {
         wait(two.a, e);
         free_on(two.block, two.a);
       });
     }},
    {"right_many_threads",
     [] {
       std::vector<std::thread> threads;
       for (int i = 0; i < 4; ++i)
         threads.emplace_back([] {
           CALL(cuCtxSetCurrent, context);
           for (int turn = 0; turn < 50; ++turn) {
             Two two;
             use(two.block, two.b);
             order(two.b, two.a);
             free_on(two.block, two.a);
             CALL(cuStreamDestroy_v2, two.a);
             CALL(cuStreamDestroy_v2, two.b);
           }
         });
       for (std::thread& each : threads)
         each.join();
     }},
    {"right_plain_free",
     [] {
       Two two;
       use(two.block, two.b);
       CALL(cuMemFree_v2, two.block);
       const CUdeviceptr other = plain();
       use(other, two.a);
       use(other, two.b);
       CALL(cuMemFree_v2, other);
     }},
    {"right_plain_free_waits",
     [] {
       Two two;
       const CUdeviceptr other = plain();
       use(two.block, two.b);
       CALL(cuMemFree_v2, other);
       free_on(two.block, two.a);
     }},
    {"right_copy_waits",
     [] {
       Two two;
       std::vector<char> host(kBytes);
       CALL(cuMemcpyDtoHAsync_v2, static_cast<void*>(host.data()), two.block, kBytes, two.b);
       free_on(two.block, two.a);
       const CUdeviceptr other = on(nullptr);
       CALL(cuMemcpyHtoD_v2, other, static_cast<const void*>(host.data()), kBytes);
       free_on(other, two.a);
     }},
    {"right_host_function",
     [] {
       Two two;
       use(two.block, two.b);
       CALL(cuLaunchHostFunc, two.b, nothing, static_cast<void*>(nullptr));
       free_on(two.block, two.a);
     }},
    {"right_host_memory_tells",
     [] {
       Two two;
       const auto* const host = pinned();
       use(two.block, two.b);
       launch(function("one"), two.b, {&host});
       free_on(two.block, two.a);
     }},
    {"right_graph",
     [] {
       Two two;
       CUgraphExec exec = nullptr;
       graph_of(two.b, two.block, &exec);
       CALL(cuGraphLaunch, exec, two.b);
       order(two.b, two.a);
       free_on(two.block, two.a);
     }},
    {"right_memory_of_a_graph",
     [] {
       const CUstream a = stream();
       CUgraph graph = nullptr;
       CUgraphExec exec = nullptr;
       CALL(cuStreamBeginCapture_v2, a, CU_STREAM_CAPTURE_MODE_RELAXED);
       const CUdeviceptr block = on(a);
       use(block, a);
       free_on(block, a);
       CALL(cuStreamEndCapture, a, &graph);
       CALL(cuGraphInstantiateWithFlags, &exec, graph, 0ULL);
       for (int i = 0; i < 3; ++i)
         CALL(cuGraphLaunch, exec, a);
       CALL(cuCtxSynchronize);
     }},
    {"right_beside_a_capture",
     [] {
       Two two;
       const CUstream c = stream();
       CUgraph graph = nullptr;
       CALL(cuStreamBeginCapture_v2, c, CU_STREAM_CAPTURE_MODE_RELAXED);
       use(two.block, two.b);
       order(two.b, two.a);
       free_on(two.block, two.a);
       const CUdeviceptr again = on(two.b);
       use(again, two.b);
       use(again, c);
       CALL(cuStreamEndCapture, c, &graph);
       free_on(again, two.b);
     }},
    {"right_reuse",
     [] {
       Two two;
       for (int i = 0; i < 20; ++i) {
         use(two.block, two.b);
         order(two.b, two.a);
         free_on(two.block, two.a);
         two.block = on(two.a);
         order(two.a, two.b);
       }
     }},
    {"right_ends_of_ranges",
     [] {
       constexpr std::size_t kWhole = 1 << 20;
       const CUstream a = stream();
       std::vector<CUdeviceptr> blocks;
       for (int i = 0; i < 8; ++i)
         blocks.push_back(on(a, kWhole));
       for (std::size_t i = 1; i < blocks.size(); i += 2)
         free_on(blocks[i], a);
       for (std::size_t i = 0; i < blocks.size(); i += 2) {
         const CUdeviceptr end = blocks[i] + kWhole;
         launch(function("touch"), a, {&blocks[i], &end});
       }
     }},
    {"right_reversed_ranges",
     [] {
       constexpr std::size_t kWhole = 1 << 20;
       const CUstream a = stream();
       std::vector<CUdeviceptr> blocks;
       for (int i = 0; i < 8; ++i)
         blocks.push_back(on(a, kWhole));
       for (std::size_t i = 1; i < blocks.size(); i += 2)
         free_on(blocks[i], a);
       for (std::size_t i = 0; i < blocks.size(); i += 2) {
         const CUdeviceptr end = blocks[i] + kWhole;
         launch(function("touch"), a, {&end, &blocks[i]});
       }
     }},
    {"right_nothing_is_copied",
     [] {
       Two two;
       free_on(two.block, two.a);
       CALL(cuMemcpyDtoDAsync_v2, two.block, two.block + 8, std::size_t{0}, two.b);
       const unsigned char value = 0;
       CALL(cuMemsetD8Async, two.block, value, std::size_t{0}, two.b);
     }},
    {"right_stream_created_anew",
     [] {
       for (int i = 0; i < 10; ++i) {
         Two two;
         use(two.block, two.b);
         CALL(cuStreamSynchronize, two.b);
         CALL(cuStreamDestroy_v2, two.b);
         free_on(two.block, two.a);
         CALL(cuStreamDestroy_v2, two.a);
       }
     }},
    {"right_stream_of_an_ended_context",
     [] {
       CUcontext other = nullptr;
       CALL(cuCtxCreate_v2, &other, 0U, 0);
       CALL(cuMemsetD8Async, plain(), static_cast<unsigned char>(1), kBytes, stream());
       CALL(cuCtxDestroy_v2, other);
       CALL(cuCtxSetCurrent, context);
       // It may have the handle of the one that ended, which waited for no default stream.
       const CUstream b = stream(CU_STREAM_DEFAULT);
       const CUdeviceptr block = on(nullptr);
       use(block, b);
       free_on(block, nullptr);
     }},
    {"right_large_structures",
     [] {
       Two two;
       std::vector<CUdeviceptr> words(512, two.block);
       free_on(two.block, two.a);
       launch(function("large"), two.b, {words.data()});
     }},
    {"right_graph_that_waits",
     [] {
       Two two;
       CUgraph graph = nullptr;
       CUgraphExec executable = nullptr;
       CUgraphNode node = nullptr;
       const CUgraphNode* const none = nullptr;
       use(two.block, two.b);
       CUevent const event = recorded(two.b);
       CALL(cuGraphCreate, &graph, 0U);
       CALL(cuGraphAddEventWaitNode, &node, graph, none, std::size_t{0}, event);
       CALL(cuGraphInstantiateWithFlags, &executable, graph, 0ULL);
       CALL(cuGraphLaunch, executable, two.a);
       free_on(two.block, two.a);
     }},
    {"right_copy_between_devices",
     [] {
       CUcontext other = nullptr;
       const CUdeviceptr here = plain();
       CALL(cuDevicePrimaryCtxRetain, &other, 1);
       CALL(cuCtxSetCurrent, other);
       const CUdeviceptr there = on(stream());
       CALL(cuCtxSetCurrent, context);
       CALL(cuMemcpyPeer, here, context, there, other, kBytes);
     }},
    {"right_recorded_stream",
     [] {
       Two two;
       use(two.block, two.b);
       record(two.block, two.b);
       free_on(two.block, two.a);
     }},
    // Each stream is kept once: the program's and custash's memory stays as it is.
    {"right_recorded_often",
     [] {
       constexpr std::size_t kMost = 1 << 16;
       Two two;
       const CUstream c = stream();
       order(two.a, c);
       const auto record_both = [&] {
         record(two.block, two.b);
         record(two.block, c);
       };
       use(two.block, two.b);
       use(two.block, c);
       record_both();
       const std::size_t before = heap_in_use();
       for (int i = 0; i < 50'000; ++i)
         record_both();
       const std::size_t after = heap_in_use();
       if (after > before + kMost) {
         std::printf("%zu bytes more\n", after - before);
         std::exit(6);
       }
       free_on(two.block, two.a);
     }},
};

// Blocks on several streams, each step at random. Some steps forget to order streams. Bare, the
// race detector says how many frees and uses were in no order.
void random_program(unsigned seed) {
  std::mt19937 random(seed);
  const auto below = [&](std::size_t count) { return std::size_t{random()} % count; };
  const CUstream streams[] = {
      stream(), stream(), stream(CU_STREAM_DEFAULT), CU_STREAM_LEGACY, CU_STREAM_PER_THREAD};
  const auto any = [&] { return streams[below(std::size(streams))]; };

  struct Block {
    CUdeviceptr address;
    std::vector<CUstream> users;
  };

  std::vector<Block> blocks;
  auto* const find = reinterpret_cast<const custash_sim_detector_calls* (*)()>(
      dlsym(library, "custash_sim_detector"));
  const custash_sim_detector_calls* const detector = find();
  const bool careful = seed % 2 == 0;
  const auto order_unless_forgotten = [&](CUstream from, CUstream to) {
    if (!careful && below(12) == 0) return;
    if (below(8) == 0) return CALL(cuStreamSynchronize, from);
    order(from, to);
  };
  const auto give_back = [&](std::size_t index) {
    const Block block = blocks[index];
    const CUstream s = any();
    for (const CUstream each : block.users)
      order_unless_forgotten(each, s);
    const auto* const memory = reinterpret_cast<const void*>(block.address);
    if (detector != nullptr)
      detector->freed(memory, 1, s);  // no more: the driver's pool would order its reuse
    else
      free_on(block.address, s);
    blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(index));
  };
  for (int step = 0; step < 60; ++step) {
    const CUstream s = any();
    if (blocks.empty() || below(4) == 0) {
      blocks.push_back({on(s), {s}});
      (void)recorded(s);  // so that the detector sees the allocation's place on its stream
      const auto* const memory = reinterpret_cast<const void*>(blocks.back().address);
      if (detector != nullptr) detector->allocated(memory, kBytes, 1, s);
    } else if (below(4) == 0) {
      give_back(below(blocks.size()));
    } else if (below(20) == 0) {
      CALL(cuCtxSynchronize);
    } else {
      Block& block = blocks[below(blocks.size())];
      const unsigned char value = 1;
      order_unless_forgotten(block.users.front(), s);
      CALL(cuMemsetD8Async, block.address, value, kBytes, s);
      block.users.push_back(s);
    }
  }
  while (!blocks.empty())
    give_back(0);
  CALL(cuCtxSynchronize);
  if (detector != nullptr)
    std::printf(
        "%zu %zu\n", detector->count("free unordered"), detector->count("before allocation"));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || std::strcmp(argv[1], "--list") == 0) {
    for (const auto& each : kPrograms)
      std::printf("%s\n", each.first.c_str());
    return 0;
  }
  library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return 2;
  CALL(cuInit, 0U);
  CALL(cuDevicePrimaryCtxRetain, &context, 0);
  CALL(cuCtxSetCurrent, context);
  if (std::strcmp(argv[1], "random") == 0 && argc == 3) {
    random_program(static_cast<unsigned>(std::atoi(argv[2])));
    return 0;
  }
  const auto found = kPrograms.find(argv[1]);
  if (found == kPrograms.end()) return 5;
  found->second();
  CALL(cuCtxSynchronize);
  return 0;
}
