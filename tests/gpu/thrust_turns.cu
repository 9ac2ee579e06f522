// SPDX-License-Identifier: MIT
// Thrust sorts of 1 Mi ints, each in a vector of its own, in windows (side_by_side.py): with
// Thrust's own pool, or without it where THRUST_NO_POOL is set. For each line of input it sorts
// `--turns` times and prints how long one took.
//
//   thrust_turns [--turns 100] [--windows]
#include "scatter.cuh"

#include <cstdlib>
#include <iostream>
#include <string>

#include <thrust/device_allocator.h>
#include <thrust/device_vector.h>
#include <thrust/execution_policy.h>
#include <thrust/mr/allocator.h>
#include <thrust/mr/disjoint_pool.h>
#include <thrust/mr/new.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>
#include <thrust/system/cuda/memory_resource.h>
#include <thrust/transform.h>

namespace gpu {

using Upstream = thrust::device_ptr_memory_resource<thrust::system::cuda::memory_resource>;
using Pool = thrust::mr::disjoint_unsynchronized_pool_resource<Upstream,
                                                               thrust::mr::new_delete_resource>;

class Sorts {
 public:
  explicit Sorts(int turns) : turns_(turns), source_(kInts), misplaced_(1) {
    thrust::sequence(source_.begin(), source_.end());
    thrust::transform(source_.begin(), source_.end(), source_.begin(), Scatter{977});
  }

  // Prints how long a sort took.
  template <typename Allocator, typename Policy>
  void window(const Allocator& allocator, const Policy& policy) {
    const double begin = now_us();
    for (int i = 0; i < turns_; ++i) {
      thrust::device_vector<int, Allocator> work(source_.begin(), source_.end(), allocator);
      thrust::sort(policy, work.begin(), work.end());
      count_misplaced<<<kInts / 256, 256>>>(thrust::raw_pointer_cast(work.data()),
                                            thrust::raw_pointer_cast(misplaced_.data()));
      CUDA_OK(cudaGetLastError());
    }
    std::cout << "turn: " << (now_us() - begin) / turns_ << " us" << std::endl;
  }

  unsigned misplaced() const { return misplaced_[0]; }

 private:
  int turns_;
  thrust::device_vector<int> source_;
  thrust::device_vector<unsigned> misplaced_;
};

static int run(int argc, char** argv) {
  need_devices(1);
  Sorts sorts(static_cast<int>(number_after(argc, argv, "--turns", 100)));
  Upstream upstream;
  thrust::mr::new_delete_resource host;
  Pool pool(&upstream, &host);
  const thrust::mr::allocator<int, Pool> pooled(&pool);
  const bool windows = has_flag(argc, argv, "--windows");
  if (windows) std::cout << "ready" << std::endl;
  std::string line;
  while (!windows || std::getline(std::cin, line)) {
    if (std::getenv("THRUST_NO_POOL")) {
      sorts.window(thrust::device_allocator<int>(), thrust::device);
    } else {
      sorts.window(pooled, thrust::cuda::par(pooled));
    }
    if (!windows) break;
  }
  std::cout << "misplaced: " << sorts.misplaced() << std::endl;
  return sorts.misplaced() != 0;
}

}  // namespace gpu

int main(int argc, char** argv) {
  return gpu::run(argc, argv);
}
