// SPDX-License-Identifier: MIT
// 300 Thrust sorts of 1 Mi ints, each in a device_vector of its own: the vector and the sort's
// temporary memory are allocated and freed every time. Every result is checked, outside the
// time.
//
//   thrust_sort [--quick]
#include "scatter.cuh"

#include <memory>

#include <thrust/device_vector.h>
#include <thrust/execution_policy.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>
#include <thrust/transform.h>

namespace gpu {

static int run(int argc, char** argv) {
  need_devices(1);
  const int sorts = has_flag(argc, argv, "--quick") ? 60 : 300;
  unsigned* misplaced = nullptr;
  CUDA_OK(cudaMalloc(&misplaced, sizeof(unsigned)));
  CUDA_OK(cudaMemset(misplaced, 0, sizeof(unsigned)));
  thrust::device_vector<int> source(kInts);

  double spent_us = 0;
  for (int i = -2; i < sorts; ++i) {  // two more, not counted, load the kernels
    thrust::sequence(source.begin(), source.end());
    thrust::transform(
        source.begin(), source.end(), source.begin(), Scatter{static_cast<unsigned>(i) * 977U});
    CUDA_OK(cudaDeviceSynchronize());
    const double start = now_us();
    auto work = std::make_unique<thrust::device_vector<int>>(source);
    thrust::sort(work->begin(), work->end());
    const double sorted = now_us();
    count_misplaced<<<kInts / 256, 256>>>(thrust::raw_pointer_cast(work->data()), misplaced);
    CUDA_OK(cudaGetLastError());
    CUDA_OK(cudaDeviceSynchronize());
    const double before_free = now_us();
    work.reset();
    const double end = now_us();
    if (i >= 0) spent_us += (sorted - start) + (end - before_free);
  }

  unsigned wrong = 0;
  CUDA_OK(cudaMemcpy(&wrong, misplaced, sizeof(wrong), cudaMemcpyDeviceToHost));
  Report report;
  report.check(wrong == 0,
               "thrust_sort",
               "sorts=%d ms=%.2f us_each=%.2f wrong=%u",
               sorts,
               spent_us / 1000,
               spent_us / sorts,
               wrong);
  return report.finish();
}

}  // namespace gpu

int main(int argc, char** argv) {
  return gpu::run(argc, argv);
}
