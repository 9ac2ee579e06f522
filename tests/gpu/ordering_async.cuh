// SPDX-License-Identifier: MIT
// Ordering checks of stream-ordered memory (cudaMallocAsync, cudaFreeAsync), alone and mixed
// with plain calls. A free on a stream orders the block on that stream, and nowhere else.
#pragma once

#include "ordering_bed.cuh"

namespace gpu {

inline std::function<void*(std::size_t)> take_on(cudaStream_t stream) {
  return [stream](std::size_t bytes) {
    void* p = nullptr;
    CUDA_OK(cudaMallocAsync(&p, bytes, stream));
    return p;
  };
}

inline std::function<void(void*)> give_on(cudaStream_t stream) {
  return [stream](void* p) { CUDA_OK(cudaFreeAsync(p, stream)); };
}

inline void play_async(Bed& bed, const char* name, Round round) {
  round.tries = 64;
  Tally tally;
  for (int i = 0; i < bed.rounds(20); ++i) {
    round.bytes = i % 2 ? 3 * kMiB : 4 * kKiB;
    bed.play(tally, round);
  }
  bed.tell(name, tally);
}

inline void stream_ordered(Bed& bed) {
  int supported = 0;
  CUDA_OK(cudaDeviceGetAttribute(&supported, cudaDevAttrMemoryPoolsSupported, 0));
  if (supported == 0) {
    std::printf("skip stream_ordered: no memory pools on this device\n");
    return;
  }
  cudaStream_t a = bed.a;
  cudaStream_t b = bed.b;

  Round steal = usual(0, a, b);
  steal.first_take = take_on(a);
  steal.first_give = give_on(a);
  steal.second_take = take_on(b);
  steal.second_give = give_on(b);
  play_async(bed, "async_steal", steal);

  Round same_stream = steal;
  same_stream.second_take = take_on(a);
  same_stream.second_give = give_on(a);
  same_stream.second = second_on(a);
  play_async(bed, "async_same_stream", same_stream);

  // Made on a, handed to b by an event, used late and freed there, then taken on a again.
  cudaEvent_t handed = nullptr;
  CUDA_OK(cudaEventCreateWithFlags(&handed, cudaEventDisableTiming));
  Round by_event = same_stream;
  by_event.first = [=](void* p, std::size_t bytes) {
    fill(a, p, bytes, kThird);
    CUDA_OK(cudaEventRecord(handed, a));
    CUDA_OK(cudaStreamWaitEvent(b, handed, 0));
    fill(b, p, bytes, kFirst, kLateNs);
  };
  by_event.first_give = give_on(b);
  play_async(bed, "async_handed_over_by_event", by_event);

  // cudaFree of stream-ordered memory does not wait (an H200 faults when work is still to
  // come), so the program does.
  Round then_plain = steal;
  then_plain.first_give = [=](void* p) {
    CUDA_OK(cudaStreamSynchronize(a));
    CUDA_OK(cudaFree(p));
  };
  then_plain.second_take = nullptr;
  then_plain.second_give = nullptr;
  play_async(bed, "async_then_plain", then_plain);

  Round plain_then = steal;
  plain_then.first_take = nullptr;
  plain_then.first_give = nullptr;
  play_async(bed, "plain_then_async", plain_then);
  CUDA_OK(cudaEventDestroy(handed));
}

}  // namespace gpu
