// SPDX-License-Identifier: MIT
// museum_peers [NUMBER | right NUMBER]: as museum.cu, with the memory of one device and the
// work of another that has access to it. Needs two devices with access to each other.
#include "museum_peers.cuh"

namespace {

using museum::array_of;
using museum::expect;
using peers::kKernelBytes;

// On device 1. The memory is device 0's.
void write(char* block, long offset, long bytes) {
  CUDA_OK(cudaSetDevice(1));
  museum_write<<<1, 32>>>(block, offset, bytes);
  (void)cudaDeviceSynchronize();  // a fault is told here
  (void)cudaSetDevice(0);
}

// So far that the address has no memory. Every other block ends where its pages end.
void far_past() {
  for (int i = 0; i < 2; ++i) {
    char* const block = array_of<char>(kKernelBytes);
    if (i == 1) continue;
    expect("past_end", block, kKernelBytes);
    write(block, kKernelBytes + 64 * 1024, 4);
  }
}

void past_end() {
  char* const block = array_of<char>(kKernelBytes);
  expect("past_end", block, kKernelBytes);
  write(block, kKernelBytes - 4, 8);
  CUDA_OK(cudaFree(block));
}

void before_beginning() {
  char* const block = array_of<char>(kKernelBytes);
  expect("before_beginning", block, kKernelBytes);
  write(block, -4, 8);
  CUDA_OK(cudaFree(block));
}

void after_free() {
  char* const block = array_of<char>(kKernelBytes);
  expect("after_free", block, kKernelBytes);
  write(block, 0, kKernelBytes);
  CUDA_OK(cudaFree(block));
  CUDA_OK(cudaDeviceSynchronize());
  write(block, 0, kKernelBytes);
}

// The target, device 1's, is large enough.
void copy_past_end() {
  char* const block = array_of<char>(kKernelBytes);
  CUDA_OK(cudaSetDevice(1));
  char* const target = array_of<char>(2 * kKernelBytes);
  expect("past_end", block, kKernelBytes);
  (void)cudaMemcpyPeerAsync(target, 1, block, 0, kKernelBytes + 1, nullptr);
  (void)cudaDeviceSynchronize();
}

void copy_from_freed() {
  char* const block = array_of<char>(kKernelBytes);
  CUDA_OK(cudaFree(block));
  CUDA_OK(cudaSetDevice(1));
  char* const target = array_of<char>(kKernelBytes);
  expect("after_free", block, kKernelBytes);
  (void)cudaMemcpyPeerAsync(target, 1, block, 0, kKernelBytes, nullptr);
  (void)cudaDeviceSynchronize();
}

const museum::Program kFaults[] = {
    {"a peer's write past the end", past_end},
    {"a peer's write far past the end", far_past},
    {"a peer's write before the beginning", before_beginning},
    {"a peer's write after the free", after_free},
    {"a copy of a byte too many to a peer", copy_past_end},
    {"a copy to a peer from a freed block", copy_from_freed},
};

void in_order() {
  for (int i = 0; i < 20; ++i) {
    const long bytes = 1000 + 4096L * i;
    char* const block = array_of<char>(bytes);
    write(block, 0, bytes);
    CUDA_OK(cudaSetDevice(1));
    char* const target = array_of<char>(bytes);
    CUDA_OK(cudaMemcpyPeerAsync(target, 1, block, 0, static_cast<std::size_t>(bytes), nullptr));
    CUDA_OK(cudaDeviceSynchronize());
    CUDA_OK(cudaFree(target));
    CUDA_OK(cudaSetDevice(0));
    CUDA_OK(cudaFree(block));
  }
}

const museum::Program kRight[] = {{"blocks that a peer writes and copies", in_order}};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return museum::list(kFaults);
  peers::begin();
  return museum::is_right(argc, argv) ? museum::run(kRight, argv[2])
                                      : museum::run(kFaults, argv[1]);
}
