// SPDX-License-Identifier: MIT
// A free beside a use: nothing orders the use before it.
#include "tests/process/streams/bed.hpp"

#include <algorithm>
#include <cstdlib>
#include <vector>

namespace check_streams {

const Programs kFrees = {
    {"free_beside_kernel", before_free([](const Two& two) { use(two.block, two.b); })},
    {"free_beside_struct", before_free([](const Two& two) { by_struct(two.block, two.b); })},
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
    {"free_beside_buffer", before_free([](const Two& two) {
       CUdeviceptr words[] = {two.block, 7};
       std::size_t bytes = sizeof words;
       void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER,
                        words,
                        CU_LAUNCH_PARAM_BUFFER_SIZE,
                        &bytes,
                        CU_LAUNCH_PARAM_END};
       need(calls::launch(function("touch"), two.b, nullptr, extra), "cuLaunchKernel");
     })},
    {"free_beside_launch_ex", before_free([](Two& two) {
       void* params[] = {&two.block};
       need(launch_ex(one_thread_on(two.b), function("one"), params), "cuLaunchKernelEx");
     })},
    {"free_beside_memset", before_free([](const Two& two) {
       const unsigned char value = 1;
       CALL(cuMemsetD8Async, two.block, value, kBytes, two.b);
     })},
    {"free_beside_copy", before_free([](const Two& two) {
       const CUdeviceptr other = plain();
       CALL(cuMemcpyDtoDAsync_v2, other, two.block, kBytes, two.b);
     })},
    {"free_beside_copy_to_pinned", before_free([](const Two& two) {
       CALL(cuMemcpyDtoHAsync_v2, pinned(), two.block, kBytes, two.b);
     })},
    {"free_beside_rows", before_free([](const Two& two) {
       CUDA_MEMCPY2D copy{};
       copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
       copy.srcDevice = two.block;
       copy.dstDevice = plain();
       copy.srcPitch = copy.dstPitch = 1000;
       copy.WidthInBytes = 100;
       copy.Height = 10;
       CALL(cuMemcpy2DAsync_v2, static_cast<const CUDA_MEMCPY2D*>(&copy), two.b);
     })},
    {"free_of_plain_memory",
     [] {
       const CUstream a = stream();
       const CUstream b = stream();
       const CUdeviceptr block = plain();
       use(block, b);
       free_on(block, a);
     }},
    {"event_too_early", before_free([](const Two& two) {
       const CUevent e = recorded(two.b);
       use(two.block, two.b);
       wait(two.a, e);
     })},
    {"event_of_another_stream", before_free([](const Two& two) {
       const CUstream c = stream();
       use(two.block, two.b);
       order(c, two.a);
     })},
    {"event_recorded_anew", before_free([](const Two& two) {
       const CUevent e = event();
       use(two.block, two.b);
       CALL(cuEventRecord, e, two.b);
       CALL(cuEventRecord, e, two.a);
       wait(two.a, e);
     })},
    {"one_of_two_streams", before_free([](const Two& two) {
       const CUstream c = stream();
       order(two.a, c);
       use(two.block, two.b);
       use(two.block, c);
       order(two.b, two.a);
     })},
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
    {"waited_too_early", before_free([](const Two& two) {
       CALL(cuStreamSynchronize, two.b);
       use(two.block, two.b);
     })},
};

}  // namespace check_streams
