// SPDX-License-Identifier: MIT
// The right programs of museum_others.cu: ordinary use to the last byte, of which a checker
// may say nothing.
#pragma once

#include "museum_bed.cuh"
#include "museum_others_device.cuh"

#include <thread>

namespace museum {

// Images of many sizes, tight and pitched, on three streams.
inline void image_pipeline() {
  constexpr int kSide = 300;
  static int host[kSide * kSide];
  cudaStream_t const streams[] = {stream_of(), stream_of(), stream_of()};
  int* const sink = array_of<int>(1);
  for (int turn = 0; turn < 60; ++turn) {
    cudaStream_t const stream = streams[turn % 3];
    const int width = 1 + turn * 5;
    const int height = kSide - turn * 3;
    const std::size_t row = static_cast<std::size_t>(width) * sizeof(int);
    const std::size_t bytes = row * static_cast<std::size_t>(height);
    int* const image = array_of<int>(static_cast<long>(width) * height);
    int* turned = nullptr;
    int* pitched = nullptr;
    std::size_t pitch = 0;
    CUDA_OK(cudaMallocPitch(&pitched, &pitch, row, height));
    CUDA_OK(cudaMallocAsync(&turned, bytes, stream));
    CUDA_OK(cudaMemcpyAsync(image, host, bytes, cudaMemcpyHostToDevice, stream));
    others_transpose<<<1, 256, 0, stream>>>(image, turned, width, height, height);
    others_sum<<<1, 256, 0, stream>>>(turned, 0, static_cast<long>(width) * height - 1, sink);
    CUDA_OK(cudaMemset2DAsync(pitched, pitch, 1, row, height, stream));
    CUDA_OK(cudaMemcpy2DAsync(
        pitched, pitch, image, row, row, height, cudaMemcpyDeviceToDevice, stream));
    CUDA_OK(cudaMemcpy2DAsync(
        host, row, pitched, pitch, row, height, cudaMemcpyDeviceToHost, stream));
    CUDA_OK(cudaFreeAsync(turned, stream));
    CUDA_OK(cudaStreamSynchronize(stream));
    CUDA_OK(cudaFree(pitched));
    CUDA_OK(cudaFree(image));
  }
  CUDA_OK(cudaDeviceSynchronize());
  CUDA_OK(cudaFree(sink));
}

// Four threads with a stream each. Every second block goes to the next thread, which frees it.
inline void many_threads() {
  constexpr int kThreadCount = 4;
  constexpr int kTurns = 40;
  static int* handed[kThreadCount][kTurns];
  const auto work = [](int self) {
    cudaStream_t const stream = stream_of();
    for (int turn = 0; turn < kTurns; ++turn) {
      const long vectors = 1 + turn * 97 + self;
      const std::size_t bytes = static_cast<std::size_t>(vectors) * sizeof(int4);
      int* const block = array_of<int>(vectors * 4);
      int* ordered = nullptr;
      CUDA_OK(cudaMallocAsync(&ordered, bytes, stream));
      others_fill4<<<1, 256, 0, stream>>>(reinterpret_cast<int4*>(block), vectors);
      CUDA_OK(cudaMemcpyAsync(ordered, block, bytes, cudaMemcpyDeviceToDevice, stream));
      others_shift<<<1, 256, 0, stream>>>(ordered, 1, vectors * 4);
      CUDA_OK(cudaFreeAsync(ordered, stream));
      if (turn % 2 == 0) {
        CUDA_OK(cudaFree(block));  // waits for what uses it
      } else {
        handed[self][turn] = block;
      }
    }
    CUDA_OK(cudaStreamSynchronize(stream));
    CUDA_OK(cudaStreamDestroy(stream));
  };
  const auto clean = [](int other) {
    for (int turn = 1; turn < kTurns; turn += 2)
      CUDA_OK(cudaFree(handed[other][turn]));
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreadCount; ++i)
    threads.emplace_back(work, i);
  for (std::thread& each : threads)
    each.join();
  threads.clear();
  for (int i = 0; i < kThreadCount; ++i)
    threads.emplace_back(clean, (i + 1) % kThreadCount);
  for (std::thread& each : threads)
    each.join();
}

// A graph works on two buffers. Each turn replaces both, and captures anew before it replays.
inline void graphs_and_buffers() {
  cudaStream_t const stream = stream_of();
  for (int turn = 0; turn < 12; ++turn) {
    const long cells = 1000 + turn * 3777;
    const std::size_t bytes = static_cast<std::size_t>(cells) * sizeof(float);
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    float* const front = array_of<float>(cells);
    float* back = nullptr;
    CUDA_OK(cudaMallocAsync(&back, bytes, stream));
    CUDA_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    CUDA_OK(cudaMemsetAsync(front, 0, bytes, stream));
    others_step<<<1, 256, 0, stream>>>(Step{cells, front, back});
    others_step<<<1, 256, 0, stream>>>(Step{cells, back, front});
    CUDA_OK(cudaMemcpyAsync(back, front, bytes, cudaMemcpyDeviceToDevice, stream));
    CUDA_OK(cudaStreamEndCapture(stream, &graph));
    CUDA_OK(cudaGraphInstantiate(&exec, graph, 0));
    for (int replay = 0; replay < 5; ++replay)
      CUDA_OK(cudaGraphLaunch(exec, stream));
    CUDA_OK(cudaFreeAsync(back, stream));
    CUDA_OK(cudaStreamSynchronize(stream));
    CUDA_OK(cudaGraphExecDestroy(exec));
    CUDA_OK(cudaGraphDestroy(graph));
    CUDA_OK(cudaFree(front));
  }
}

// The host fills pinned buffers to the last byte. Copies and a kernel use them.
inline void pinned_staging() {
  cudaStream_t const stream = stream_of();
  for (int turn = 0; turn < 30; ++turn) {
    const long cells = 1 + turn * 1111;
    const std::size_t bytes = static_cast<std::size_t>(cells) * sizeof(float);
    float* const up = pinned_of<float>(cells);
    float* mapped = nullptr;
    float* seen = nullptr;
    float* block = nullptr;
    CUDA_OK(cudaHostAlloc(&mapped, bytes, cudaHostAllocMapped | cudaHostAllocPortable));
    CUDA_OK(cudaHostGetDevicePointer(&seen, mapped, 0));
    CUDA_OK(cudaMallocAsync(&block, bytes, stream));
    std::memset(up, turn, bytes);
    CUDA_OK(cudaMemcpyAsync(block, up, bytes, cudaMemcpyHostToDevice, stream));
    others_step<<<1, 256, 0, stream>>>(Step{cells, block, seen});
    CUDA_OK(cudaMemcpyAsync(up, block, bytes, cudaMemcpyDeviceToHost, stream));
    CUDA_OK(cudaFreeAsync(block, stream));
    CUDA_OK(cudaStreamSynchronize(stream));
    mapped[cells - 1] += up[cells - 1];
    CUDA_OK(cudaFreeHost(up));
    CUDA_OK(cudaFreeHost(mapped));
  }
  Ring ring{nullptr, 31, 48};
  CUDA_OK(cudaMallocAsync(&ring.base, 31 * 48, stream));
  others_push<<<1, 32, 0, stream>>>(ring, 5, 200);
  CUDA_OK(cudaFreeAsync(ring.base, stream));
  CUDA_OK(cudaDeviceSynchronize());
}

}  // namespace museum
