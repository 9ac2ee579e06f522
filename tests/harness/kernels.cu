// SPDX-License-Identifier: MIT
// The only file for nvcc. Names without mangling, so that models.cpp can say which is which.
#include "tests/harness/kernels.hpp"

#include <cub/device/device_radix_sort.cuh>

using namespace custash::harness;

namespace {

unsigned blocks_for(std::uint64_t count) {
  const std::uint64_t blocks = (count + 255) / 256;
  return static_cast<unsigned>(blocks < 4096 ? blocks : 4096);
}

template <typename T>
cudaError_t sort_as(void* scratch,
                    size_t& scratch_bytes,
                    const void* from,
                    void* to,
                    std::uint64_t n,
                    cudaStream_t stream) {
  return cub::DeviceRadixSort::SortKeys(scratch,
                                        scratch_bytes,
                                        static_cast<const T*>(from),
                                        static_cast<T*>(to),
                                        static_cast<int>(n),
                                        0,
                                        static_cast<int>(sizeof(T) * 8),
                                        stream);
}

}  // namespace

#define HARNESS_KERNEL(Work)                                                                  \
  extern "C" __global__ void harness_##Work(Work work) {                                      \
    const std::uint64_t stride = static_cast<std::uint64_t>(gridDim.x) * blockDim.x;          \
    for (std::uint64_t i = static_cast<std::uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x; \
         i < work.count();                                                                    \
         i += stride)                                                                         \
      work(i);                                                                                \
  }                                                                                           \
  cudaError_t kernels::launch(const Work& work, cudaStream_t stream) {                        \
    if (work.count() == 0) return cudaSuccess;                                                \
    const unsigned threads = work.count() < 256 ? static_cast<unsigned>(work.count()) : 256;  \
    harness_##Work<<<blocks_for(work.count()), threads, 0, stream>>>(work);                   \
    return cudaGetLastError();                                                                \
  }

HARNESS_WORKS(HARNESS_KERNEL)

cudaError_t kernels::sort(void* scratch,
                          size_t& scratch_bytes,
                          const void* from,
                          void* to,
                          DType type,
                          std::uint64_t n,
                          cudaStream_t stream) {
  switch (type) {
    case DType::Float32:
      return sort_as<float>(scratch, scratch_bytes, from, to, n, stream);
    case DType::Int32:
      return sort_as<int>(scratch, scratch_bytes, from, to, n, stream);
    case DType::Int64:
      return sort_as<long long>(scratch, scratch_bytes, from, to, n, stream);
    default:
      return cudaErrorNotSupported;
  }
}
