// SPDX-License-Identifier: MIT
// museum_peer_streams [NUMBER | right NUMBER]: bugs of stream order between two devices, and
// the same programs with the order that they lack. museum.py runs them with --check streams.
#include "museum_peers.cuh"

namespace {

using museum::array_of;
using museum::expect;
using peers::kKernelBytes;

bool right = false;

cudaStream_t stream_on(int device) {
  CUDA_OK(cudaSetDevice(device));
  return museum::stream_of();
}

// An event of one device, and the other device's stream waits for it.
void order(cudaStream_t waiter, cudaStream_t done, int device) {
  if (!right) return;
  cudaEvent_t event = nullptr;
  CUDA_OK(cudaSetDevice(device));
  CUDA_OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  CUDA_OK(cudaEventRecord(event, done));
  CUDA_OK(cudaStreamWaitEvent(waiter, event, 0));
}

void write_on_1(char* block, cudaStream_t stream) {
  CUDA_OK(cudaSetDevice(1));
  museum_write<<<1, 32, 0, stream>>>(block, 0, kKernelBytes);
  CUDA_OK(cudaGetLastError());
}

void finish() {
  for (const int device : {1, 0}) {
    CUDA_OK(cudaSetDevice(device));
    CUDA_OK(cudaDeviceSynchronize());
  }
}

void say(const char* kind, const char* block) {
  if (!right) expect(kind, block, kKernelBytes);
}

// Device 0 frees what device 1 still writes.
void free_beside_kernel() {
  cudaStream_t const user = stream_on(1);
  cudaStream_t const owner = stream_on(0);
  char* const block = array_of<char>(kKernelBytes);
  say("free_beside_use", block);
  write_on_1(block, user);
  order(owner, user, 1);
  CUDA_OK(cudaSetDevice(0));
  CUDA_OK(cudaFreeAsync(block, owner));
  finish();
}

// The copy runs on a stream of device 1.
void free_beside_copy() {
  cudaStream_t const owner = stream_on(0);
  char* const block = array_of<char>(kKernelBytes);
  cudaStream_t const user = stream_on(1);
  char* const target = array_of<char>(kKernelBytes);
  say("free_beside_use", block);
  CUDA_OK(cudaMemcpyPeerAsync(target, 1, block, 0, kKernelBytes, user));
  order(owner, user, 1);
  CUDA_OK(cudaSetDevice(0));
  CUDA_OK(cudaFreeAsync(block, owner));
  finish();
}

// Device 1 writes what the stream of device 0 has not got yet.
void use_before_allocation() {
  cudaStream_t const user = stream_on(1);
  cudaStream_t const owner = stream_on(0);
  cudaMemPool_t pool = nullptr;
  cudaMemAccessDesc access = {};
  access.location.type = cudaMemLocationTypeDevice;
  access.location.id = 1;
  access.flags = cudaMemAccessFlagsProtReadWrite;
  CUDA_OK(cudaDeviceGetDefaultMemPool(&pool, 0));
  CUDA_OK(cudaMemPoolSetAccess(pool, &access, 1));
  void* block = nullptr;
  CUDA_OK(cudaMallocAsync(&block, kKernelBytes, owner));
  say("before_allocation", static_cast<char*>(block));
  order(user, owner, 0);
  write_on_1(static_cast<char*>(block), user);
  finish();
  CUDA_OK(cudaFreeAsync(block, owner));
  CUDA_OK(cudaStreamSynchronize(owner));
}

const museum::Program kPrograms[] = {
    {"a free beside a peer's kernel", free_beside_kernel},
    {"a free beside a copy on the peer's stream", free_beside_copy},
    {"a peer's use before the allocation", use_before_allocation},
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return museum::list(kPrograms);
  right = museum::is_right(argc, argv);
  peers::begin();
  return museum::run(kPrograms, argv[argc - 1]);
}
