// SPDX-License-Identifier: MIT
// Memory of an explicit pool: wrong in one way, and right. Published bugs: museum_streams.cu.
#include "tests/process/streams/bed.hpp"

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

const Programs kPools = {
    {"reuse_in_a_pool", reuse_in_a_pool<false, true>},
    {"reuse_in_a_pool_without_policies", reuse_in_a_pool<false, false>},
    {"right_reuse_in_a_pool", reuse_in_a_pool<true, true>},
    {"right_reuse_in_a_pool_without_policies", reuse_in_a_pool<true, false>},
};

}  // namespace check_streams
