// SPDX-License-Identifier: MIT
// Right: what orders a use before the free and behind the allocation.
#include "tests/process/streams/bed.hpp"

#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include <malloc.h>

namespace check_streams {
namespace {

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

}  // namespace

const Programs kOrders = {
    {"right_event", before_free([](const Two& two) {
       use(two.block, two.b);
       order(two.b, two.a);
     })},
    {"right_events_in_a_row", before_free([](const Two& two) {
       const CUstream c = stream();
       use(two.block, two.b);
       order(two.b, c);
       order(c, two.a);
     })},
    {"right_free_on_the_user",
     [] {
       Two two;
       by_struct(two.block, two.b);
       free_on(two.block, two.b);
     }},
    {"right_stream_sync", before_free([](const Two& two) {
       use(two.block, two.b);
       CALL(cuStreamSynchronize, two.b);
     })},
    {"right_query", before_free([](const Two& two) {
       use(two.block, two.b);
       while (call("cuStreamQuery", two.b) != 0)
         ;
     })},
    {"right_event_sync", before_free([](const Two& two) {
       use(two.block, two.b);
       const CUevent e = recorded(two.b);
       CALL(cuEventSynchronize, e);
     })},
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
    {"right_plain_free_waits", before_free([](const Two& two) {
       const CUdeviceptr other = plain();
       use(two.block, two.b);
       CALL(cuMemFree_v2, other);
     })},
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
    {"right_host_function", before_free([](const Two& two) {
       use(two.block, two.b);
       CALL(cuLaunchHostFunc, two.b, nothing, static_cast<void*>(nullptr));
     })},
    {"right_host_memory_tells", before_free([](const Two& two) {
       const auto* const host = pinned();
       use(two.block, two.b);
       launch(function("one"), two.b, {&host});
     })},
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
    {"right_recorded_stream", before_free([](const Two& two) {
       use(two.block, two.b);
       record(two.block, two.b);
     })},
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

}  // namespace check_streams
