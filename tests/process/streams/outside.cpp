// SPDX-License-Identifier: MIT
// A use outside of the block's life: after the free, or beside the allocation.
#include "tests/process/streams/bed.hpp"

#include <vector>

namespace check_streams {

const Programs kOutside = {
    {"after_free_same_stream", after_free([](const Two& two) { use(two.block, two.a); })},
    {"after_free_other_stream", after_free([](const Two& two) { use(two.block, two.b); })},
    {"after_free_in_order",
     [] {
       Two two;
       by_struct_often(two.block, two.a);
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
    {"after_free_copy", after_free([](const Two& two) {
       CALL(cuMemcpyHtoDAsync_v2, two.block, static_cast<const void*>(pinned()), kBytes, two.b);
     })},
    {"after_plain_free",
     [] {
       const CUdeviceptr block = plain();
       CALL(cuMemFree_v2, block);
       use(block, stream());
     }},
    // By an address inside the block.
    {"after_free_inside", after_free([](const Two& two) { use(two.block + 4096, two.a); })},
    // ---- Beside the allocation.
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
    // A copy that names no stream goes to the default stream.
    {"copy_without_a_stream",
     [] {
       const CUstream training = stream();
       const CUdeviceptr mask = on(training);
       std::vector<char> host(kBytes);
       CALL(cuMemcpyHtoD_v2, mask, static_cast<const void*>(host.data()), kBytes);
     }},
    {"allocation_in_thread",
     [] {
       CUdeviceptr block = 0;
       in_thread(
           [&] { CALL(cuMemAllocAsync_ptsz, &block, kBytes, static_cast<CUstream>(nullptr)); });
       use(block, CU_STREAM_PER_THREAD);
     }},
};

}  // namespace check_streams
