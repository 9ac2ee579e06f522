// SPDX-License-Identifier: MIT
// Ordering checks of many blocks at once, and of blocks that are cut, or joined, between their
// two owners. How an allocator cuts is its own affair: `biting` says whether bytes came back at
// all.
#pragma once

#include "ordering_bed.cuh"

namespace gpu {

// Late work on `old_count` blocks, all freed, then `new_count` blocks of another size: every
// one of them must keep its owner's words. More are asked for than fit, or other free memory
// would do.
inline void recut(Bed& bed,
                  const char* name,
                  int old_count,
                  std::size_t old_bytes,
                  int new_count,
                  std::size_t new_bytes) {
  const cudaStream_t streams[] = {bed.a, bed.b, bed.c, bed.d};
  Tally tally;
  for (int i = 0; i < bed.rounds(10); ++i) {
    std::vector<void*> old_blocks;
    for (int k = 0; k < old_count; ++k)
      old_blocks.push_back(device_memory(old_bytes));
    const double start = now_us();
    for (int k = 0; k < old_count; ++k) {
      fill(streams[k % 3], old_blocks[k], old_bytes, kFirst, kLateNs);
    }
    for (void* p : old_blocks)
      tally.free_us.push_back(bed.timed_free(p));
    std::vector<void*> blocks;
    bool same = false;
    for (int k = 0; k < new_count; ++k) {
      blocks.push_back(device_memory(new_bytes));
      for (void* p : old_blocks)
        same |= overlap(p, old_bytes, blocks.back(), new_bytes);
    }
    tally.same += same ? 1 : 0;
    const bool due = (now_us() - start) * 1000 < static_cast<double>(kLateNs);
    tally.biting += same && due ? 1 : 0;
    for (int k = 0; k < new_count; ++k) {
      fill(streams[(k + 1) % 4], blocks[k], new_bytes, kSecond + static_cast<Word>(k));
    }
    ++tally.rounds;
    for (int k = 0; k < new_count; ++k) {
      tally.wrong += bed.wrong.in(blocks[k], new_bytes, kSecond + static_cast<Word>(k));
    }
    for (void* p : blocks)
      CUDA_OK(cudaFree(p));
    bed.settle();
  }
  bed.tell(name, tally);
}

inline void recuts(Bed& bed) {
  recut(bed, "many_blocks", 32, 3 * kMiB, 120, 3 * kMiB);
  recut(bed, "block_split", 1, 64 * kMiB, 60, 8 * kMiB);
  recut(bed, "blocks_joined", 8, 8 * kMiB, 8, 64 * kMiB);
}

}  // namespace gpu
