// SPDX-License-Identifier: MIT
// Bugs of others, rebuilt.
#include "tests/process/streams/bed.hpp"

#include <vector>

namespace check_streams {

namespace {

// Memory of an explicit pool comes to another stream, with the reuse policies on or off. The
// reuse itself is ordered in any case. Only a use may lack the order before the free.
template <bool kOrdered, bool kPolicies>
void reuse_in_a_pool() {
  CUmemPoolProps props = {};
  props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemoryPool pool = nullptr;
  CALL(cuMemPoolCreate, &pool, static_cast<const CUmemPoolProps*>(&props));
  for (const auto policy : {CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES,
                            CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC,
                            CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES}) {
    int off = 0;
    if (!kPolicies) CALL(cuMemPoolSetAttribute, pool, policy, static_cast<void*>(&off));
  }
  const auto block_on = [&](CUstream s) {
    CUdeviceptr block = 0;
    CALL(cuMemAllocFromPoolAsync, &block, kBytes, pool, s);
    return block;
  };
  const CUstream owner = stream();
  const CUstream reader = stream();
  const CUstream next = stream();
  const CUdeviceptr block = block_on(owner);
  order(owner, reader);
  use(block, reader);
  if (kOrdered) order(reader, owner);
  free_on(block, owner);
  order(owner, next);
  const CUdeviceptr other = block_on(next);
  use(other, next);
  free_on(other, next);
}

}  // namespace

const Programs kBugs = {
    {"reuse_in_a_pool", reuse_in_a_pool<false, true>},
    {"reuse_in_a_pool_without_policies", reuse_in_a_pool<false, false>},
    {"right_reuse_in_a_pool", reuse_in_a_pool<true, true>},
    {"right_reuse_in_a_pool_without_policies", reuse_in_a_pool<true, false>},
    // A table's columns are freed on the idle stream of the pool that made them, while their
    // reader's cast still runs.
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
};

}  // namespace check_streams
