// SPDX-License-Identifier: MIT
// museum_streams [NUMBER | right NUMBER]: published bugs of stream order, rebuilt as small
// programs, and one that nobody published. Without a number it lists them. With one it runs
// that bug. "right NUMBER" runs the same program with the missing order. Before the fault it
// prints what should be found: "expect KIND ADDRESS BYTES". cudaMallocAsync and cudaFreeAsync
// stand for the caches of frameworks, so tensor.record_stream(side) becomes a wait before the
// free. Every kernel ends by itself and stays inside its blocks. On the simulator
// museum_others_kernels.cpp stands for the kernels.
#include "museum_bed.cuh"
#include "museum_layouts.hpp"

#include <thread>

using museum::array_of;
using museum::pinned_of;
using museum::stream_of;
using museum::wait_for;

__device__ void spin(unsigned milliseconds) {
  unsigned long long begin = 0;
  unsigned long long now = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  do {
    __nanosleep(1000);
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (now - begin < milliseconds * 1000000ULL);
}

extern "C" __global__ void streams_spin(unsigned milliseconds) {
  spin(milliseconds);
}

extern "C" __global__ void streams_fill(int* to, long count, int value) {
  for (long i = threadIdx.x; i < count; i += blockDim.x)
    to[i] = value;
}

extern "C" __global__ void streams_sum(const int* from,
                                       long count,
                                       unsigned milliseconds,
                                       int* sink) {
  spin(milliseconds);
  int sum = 0;
  for (long i = threadIdx.x; i < count; i += blockDim.x)
    sum += from[i];
  atomicAdd(sink, sum);
}

extern "C" __global__ void streams_cast(museum::Column column,
                                        long long* out,
                                        unsigned milliseconds) {
  spin(milliseconds);
  for (int i = static_cast<int>(threadIdx.x); i < column.rows; i += blockDim.x)
    out[i] = column.values[i];
}

extern "C" __global__ void streams_decode(museum::Strings strings,
                                          unsigned milliseconds,
                                          int* sink) {
  spin(milliseconds);
  int sum = 0;
  for (int i = static_cast<int>(threadIdx.x); i < strings.rows; i += blockDim.x)
    sum += strings.offsets[i] + strings.chars[i];
  atomicAdd(sink, sum);
}

extern "C" __global__ void streams_attend(museum::Query query,
                                          unsigned milliseconds,
                                          int* out) {
  spin(milliseconds);
  for (int i = static_cast<int>(threadIdx.x); i < query.tokens; i += blockDim.x) {
    query.q[i] += 1;
    out[i] = query.q[i] + query.topk[i];
  }
}

namespace {

constexpr int kCount = 256 * 1024;
constexpr std::size_t kBytes = kCount * sizeof(int);
constexpr int kThreads = 256;
constexpr unsigned kSlow = 20;  // milliseconds

bool right = false;  // the counterpart runs

void planted(const char* kind, const void* block, std::size_t bytes = kBytes) {
  if (!right) museum::expect(kind, block, bytes);
}

int* ordered(cudaStream_t stream, std::size_t bytes = kBytes) {
  int* out = nullptr;
  CUDA_OK(cudaMallocAsync(&out, bytes, stream));
  return out;
}

void release(void* block, cudaStream_t stream) {
  CUDA_OK(cudaFreeAsync(block, stream));
}

void fill(int* block, cudaStream_t stream) {
  streams_fill<<<1, kThreads, 0, stream>>>(block, kCount, 7);
}

void end(void* pinned, void* block) {
  (void)cudaDeviceSynchronize();
  (void)cudaFreeHost(pinned);
  (void)cudaFree(block);
}

// NVIDIA/cuCascade#186: the converter's own stream frees a column that a cast still reads.
void cucascade_186() {
  cudaStream_t const converter = stream_of();
  cudaStream_t const consumer = stream_of();
  int* const pinned = pinned_of<int>(kCount);
  std::memset(pinned, 1, kBytes);
  int* const column = ordered(converter);
  CUDA_OK(cudaMemcpyAsync(column, pinned, kBytes, cudaMemcpyHostToDevice, converter));
  wait_for(consumer, converter);
  auto* const cast = reinterpret_cast<long long*>(ordered(consumer, 2 * kBytes));
  streams_cast<<<1, kThreads, 0, consumer>>>(museum::Column{4, kCount, column}, cast, kSlow);
  planted("free_beside_use", column);
  release(column, right ? consumer : converter);  // upstream: release_table(stream) rebinds
  int* const next = ordered(converter);
  CUDA_OK(cudaMemcpyAsync(next, pinned, kBytes, cudaMemcpyHostToDevice, converter));
  release(next, converter);
  release(cast, consumer);
  end(pinned, nullptr);
}

// NVIDIA/cudf#21922 asks for tests of stream order and names no single bug. Its first proposal
// is to find what the default stream hides. Here a helper ignores the stream it was given.
void cudf_21922() {
  cudaStream_t const user = stream_of();
  cudaStream_t const helper = right ? user : nullptr;
  int* const sink = array_of<int>(1);
  int* const before = ordered(user);
  fill(before, user);
  streams_sum<<<1, kThreads, 0, user>>>(before, kCount, kSlow, sink);
  release(before, user);
  int* const out = ordered(user);
  planted("before_allocation", out);
  fill(out, helper);
  CUDA_OK(cudaStreamSynchronize(helper));
  streams_sum<<<1, kThreads, 0, user>>>(out, kCount, 0, sink);
  release(out, user);
  end(nullptr, sink);
}

// sirius-db/sirius#1546: a scan drops the read lock of a cached batch while its kernels still
// read it, so another thread moves the batch to the host and frees it.
void sirius_1546() {
  cudaStream_t const loader = stream_of();
  cudaStream_t const scan = stream_of();
  int* const pinned = pinned_of<int>(kCount);
  int* const sink = array_of<int>(1);
  int* const batch = ordered(loader);
  fill(batch, loader);
  CUDA_OK(cudaStreamSynchronize(loader));
  const museum::Strings strings{
      kCount / 2, batch + 64, reinterpret_cast<const char*>(batch + 64 + kCount / 2)};
  streams_decode<<<1, kThreads, 0, scan>>>(strings, kSlow, sink);
  if (right) CUDA_OK(cudaStreamSynchronize(scan));  // then the lock may go
  std::thread([&] {
    cudaStream_t const eviction = stream_of();
    CUDA_OK(cudaMemcpyAsync(pinned, batch, kBytes, cudaMemcpyDeviceToHost, eviction));
    planted("free_beside_use", batch);
    release(batch, eviction);
    int* const next = ordered(eviction);
    CUDA_OK(cudaMemsetAsync(next, 0, kBytes, eviction));
    release(next, eviction);
  }).join();
  end(pinned, sink);
}

// MrNeRF/LichtFeld-Studio#1427: cudaMemcpy, which names no stream, converts a mask. Its target
// was allocated on the loader's stream.
void lichtfeld_1427() {
  cudaStream_t const loader = stream_of();
  cudaStream_t const training = stream_of();
  int* const sink = array_of<int>(1);
  int* const decoded = array_of<int>(kCount);
  fill(decoded, loader);
  CUDA_OK(cudaStreamSynchronize(loader));
  streams_spin<<<1, 1, 0, loader>>>(kSlow);
  int* const mask = ordered(loader);
  planted("before_allocation", mask);
  if (right)
    CUDA_OK(cudaMemcpyAsync(mask, decoded, kBytes, cudaMemcpyDeviceToDevice, loader));
  else
    CUDA_OK(cudaMemcpy(mask, decoded, kBytes, cudaMemcpyDeviceToDevice));
  wait_for(training, loader);
  streams_sum<<<1, kThreads, 0, training>>>(mask, kCount, 0, sink);
  CUDA_OK(cudaDeviceSynchronize());
  release(mask, training);
  CUDA_OK(cudaFree(decoded));
  end(nullptr, sink);
}

// pytorch/pytorch#179863: memory that a side stream still reads goes to another stream's new
// tensor, because the allocator knows only the stream of the allocation.
void pytorch_179863() {
  cudaStream_t const current = stream_of();
  cudaStream_t const side = stream_of();
  cudaStream_t const other = stream_of();
  int* const sink = array_of<int>(1);
  int* const tensor = ordered(current);
  fill(tensor, current);
  wait_for(side, current);
  streams_sum<<<1, kThreads, 0, side>>>(tensor, kCount, kSlow, sink);
  if (right) wait_for(current, side);
  planted("free_beside_use", tensor);
  release(tensor, current);
  int* const next = ordered(other);
  fill(next, other);
  release(next, other);
  end(nullptr, sink);
}

// pytorch/pytorch#58385 asks for a check that finds tensors used after their free, which RPC
// often had. It shows no code. Here the agent's thread sends a tensor that the caller dropped.
void pytorch_58385() {
  cudaStream_t const caller = stream_of();
  cudaStream_t const fresh = stream_of();
  int* const pinned = pinned_of<int>(kCount);
  cudaEvent_t ready = nullptr;
  CUDA_OK(cudaEventCreateWithFlags(&ready, cudaEventDisableTiming));
  int* const tensor = ordered(caller);
  fill(tensor, caller);
  CUDA_OK(cudaEventRecord(ready, caller));
  const auto send = [&] {
    CUDA_OK(cudaStreamWaitEvent(fresh, ready, 0));
    CUDA_OK(cudaMemcpyAsync(pinned, tensor, kBytes, cudaMemcpyDeviceToHost, fresh));
  };
  if (right) {
    std::thread(send).join();
    wait_for(caller, fresh);
    release(tensor, caller);
  } else {
    release(tensor, caller);
    planted("after_free", tensor);
    std::thread(send).join();
  }
  CUDA_OK(cudaEventDestroy(ready));
  end(pinned, nullptr);
}

// NVIDIA/Megatron-LM#5788: a gathered bucket is freed on the gather stream while the compute
// stream still reads it. Its author found later that Megatron has the order one frame up. The
// right counterpart has that order.
void megatron_5788() {
  cudaStream_t const gather = stream_of();
  cudaStream_t const compute = stream_of();
  int* const sink = array_of<int>(1);
  int* const shard = array_of<int>(kCount / 2);
  CUDA_OK(cudaMemset(shard, 0, kBytes / 2));
  CUDA_OK(cudaDeviceSynchronize());
  const auto gathered = [&] {
    int* const bucket = ordered(gather);
    for (int rank = 0; rank < 2; ++rank)
      CUDA_OK(cudaMemcpyAsync(
          bucket + rank * (kCount / 2), shard, kBytes / 2, cudaMemcpyDeviceToDevice, gather));
    return bucket;
  };
  int* const bucket = gathered();
  wait_for(compute, gather);
  const int* const weight = bucket + 1024;
  streams_sum<<<1, kThreads, 0, compute>>>(weight, kCount - 1024, kSlow, sink);
  if (right) wait_for(gather, compute);
  planted("free_beside_use", bucket);
  release(bucket, gather);
  release(gathered(), gather);
  CUDA_OK(cudaDeviceSynchronize());
  CUDA_OK(cudaFree(shard));
  end(nullptr, sink);
}

// NVIDIA/TensorRT-LLM#15265: q comes from the compressor's stream and is freed there while
// the caller's stream, which waited for it, still works on it. topk is handed over rightly.
void tensorrt_llm_15265() {
  cudaStream_t const caller = stream_of();
  cudaStream_t const compressor = stream_of();
  cudaStream_t const indexer = stream_of();
  int* const out = array_of<int>(kCount);
  int* const q = ordered(compressor);
  fill(q, compressor);
  int* const topk = ordered(indexer);
  fill(topk, indexer);
  wait_for(caller, compressor);
  wait_for(caller, indexer);
  streams_attend<<<1, kThreads, 0, caller>>>(museum::Query{kCount, q, topk}, kSlow, out);
  release(topk, caller);
  if (right) wait_for(compressor, caller);
  planted("free_beside_use", q);
  release(q, compressor);
  int* const next = ordered(compressor);
  fill(next, compressor);
  release(next, compressor);
  end(nullptr, out);
}

// meta-pytorch/torchrec#4231: a tensor is stashed to the host on a side stream. Its storage is
// resized to nothing at once, and the next tensor gets the memory.
void torchrec_4231() {
  cudaStream_t const current = stream_of();
  cudaStream_t const stash = stream_of();
  int* const pinned = pinned_of<int>(kCount);
  cudaEvent_t copied = nullptr;
  CUDA_OK(cudaEventCreateWithFlags(&copied, cudaEventDisableTiming));
  int* const tensor = ordered(current);
  fill(tensor, current);
  wait_for(stash, current);
  streams_spin<<<1, 1, 0, stash>>>(kSlow);
  CUDA_OK(cudaMemcpyAsync(pinned, tensor, kBytes, cudaMemcpyDeviceToHost, stash));
  CUDA_OK(cudaEventRecord(copied, stash));
  // As PyTorch's cache does after record_stream: it asks the event and frees then.
  while (right && cudaEventQuery(copied) == cudaErrorNotReady)
    std::this_thread::yield();
  planted("free_beside_use", tensor);
  release(tensor, current);
  int* const next = ordered(current);
  CUDA_OK(cudaMemsetAsync(next, 0xff, kBytes, current));
  release(next, current);
  CUDA_OK(cudaEventDestroy(copied));
  end(pinned, nullptr);
}

// microsoft/onnxruntime#32342: an intermediate is allocated and freed without naming the run's
// stream, so the memory goes to another run while work on it is still queued.
void onnxruntime_32342() {
  cudaStream_t const first = stream_of();
  int* const input = array_of<int>(kCount);
  int* const sink = array_of<int>(1);
  CUDA_OK(cudaMemset(input, 0, kBytes));
  CUDA_OK(cudaDeviceSynchronize());
  cudaStream_t const owner = right ? first : nullptr;
  int* const intermediate = ordered(owner);
  CUDA_OK(cudaStreamSynchronize(owner));  // only the free has no order
  streams_spin<<<1, 1, 0, first>>>(kSlow);
  CUDA_OK(cudaMemsetAsync(intermediate, 0, kBytes, first));
  CUDA_OK(cudaMemcpyAsync(intermediate, input, kBytes / 2, cudaMemcpyDeviceToDevice, first));
  streams_sum<<<1, kThreads, 0, first>>>(intermediate, kCount, 0, sink);
  planted("free_beside_use", intermediate);
  release(intermediate, owner);
  std::thread([] {
    cudaStream_t const second = stream_of();
    int* const other = ordered(second);
    CUDA_OK(cudaMemsetAsync(other, 1, kBytes, second));
    release(other, second);
    CUDA_OK(cudaStreamSynchronize(second));
  }).join();
  CUDA_OK(cudaDeviceSynchronize());
  CUDA_OK(cudaFree(input));
  end(nullptr, sink);
}

// NVIDIA/cccl#878: a cache takes the per-thread default streams of two threads for one, since
// their handles are equal. So what one thread still works on goes to another thread at once.
void cccl_878() {
  int* const sink = array_of<int>(1);
  int* cached = nullptr;
  cudaEvent_t worked = nullptr;
  CUDA_OK(cudaEventCreateWithFlags(&worked, cudaEventDisableTiming));
  std::thread([&] {
    cached = ordered(cudaStreamPerThread);
    CUDA_OK(cudaStreamSynchronize(cudaStreamPerThread));  // only the hand-over has no order
    fill(cached, cudaStreamPerThread);
    streams_sum<<<1, kThreads, 0, cudaStreamPerThread>>>(cached, kCount, kSlow, sink);
    CUDA_OK(cudaEventRecord(worked, cudaStreamPerThread));
  }).join();
  std::thread([&] {
    if (right) CUDA_OK(cudaStreamWaitEvent(cudaStreamPerThread, worked, 0));
    fill(cached, cudaStreamPerThread);
    planted("free_beside_use", cached);
    release(cached, cudaStreamPerThread);
  }).join();
  CUDA_OK(cudaEventDestroy(worked));
  end(nullptr, sink);
}

// Of nobody: a use after the free in the order of the thread's own stream.
void per_thread_stream() {
  int* const sink = array_of<int>(1);
  int* const block = ordered(cudaStreamPerThread);
  fill(block, cudaStreamPerThread);
  const auto sum = [&] {
    streams_sum<<<1, kThreads, 0, cudaStreamPerThread>>>(block, kCount, 0, sink);
  };
  if (right) sum();
  release(block, cudaStreamPerThread);
  planted("after_free", block);
  if (!right) sum();
  end(nullptr, sink);
}

const museum::Program kPrograms[] = {
    {"NVIDIA/cuCascade#186", cucascade_186},
    {"NVIDIA/cudf#21922", cudf_21922},
    {"sirius-db/sirius#1546", sirius_1546},
    {"MrNeRF/LichtFeld-Studio#1427", lichtfeld_1427},
    {"pytorch/pytorch#179863", pytorch_179863},
    {"pytorch/pytorch#58385", pytorch_58385},
    {"NVIDIA/Megatron-LM#5788", megatron_5788},
    {"NVIDIA/TensorRT-LLM#15265", tensorrt_llm_15265},
    {"meta-pytorch/torchrec#4231", torchrec_4231},
    {"microsoft/onnxruntime#32342", onnxruntime_32342},
    {"NVIDIA/cccl#878", cccl_878},
    {"a use after the free, per thread", per_thread_stream},
};

// The default pool gives freed memory back when the host waits. The kernels of the bugs would
// then fault, and a program should end well without a checker. Frameworks set this, too.
void keep_freed_memory() {
  cudaMemPool_t pool = nullptr;
  std::uint64_t all = ~std::uint64_t{0};
  if (cudaDeviceGetDefaultMemPool(&pool, 0) == cudaSuccess)
    (void)cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return museum::list(kPrograms);
  gpu::need_devices(1);
  right = museum::is_right(argc, argv);
  keep_freed_memory();
  return museum::run(kPrograms, argv[argc - 1]);
}
