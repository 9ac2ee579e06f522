// SPDX-License-Identifier: MIT
// What a launch takes the calling thread: of a kernel with three addresses and a number, on one
// stream, in batches that the driver's queue holds. Microseconds, the median of the batches,
// and the range of their middle half. A measurement: it fails only on a CUDA error.
//
//   launches [--quick]
#include "kernels.cuh"

namespace gpu {

constexpr int kLaunches = 200;  // of a batch

static __global__ void three(Word* a, Word* b, Word* c, std::size_t words) {
  if (words == 0) *a = *b + *c;
}

static double batch(cudaStream_t stream, Word* const (&blocks)[3]) {
  const double start = now_us();
  for (int i = 0; i < kLaunches; ++i)
    three<<<1, 1, 0, stream>>>(blocks[0], blocks[1], blocks[2], 1);
  const double spent = now_us() - start;
  CUDA_OK(cudaStreamSynchronize(stream));
  return spent / kLaunches;
}

static int run(int argc, char** argv) {
  need_devices(1);
  Word* blocks[3] = {};
  for (Word*& block : blocks)
    block = static_cast<Word*>(device_memory(kMiB));
  cudaStream_t stream = new_stream();
  std::vector<double> us;
  for (int i = 0; i < (has_flag(argc, argv, "--quick") ? 20 : 500); ++i)
    us.push_back(batch(stream, blocks));
  us.erase(us.begin(), us.begin() + 10);  // the first ones warm up
  std::sort(us.begin(), us.end());
  Report report;
  report.check(true,
               "launches",
               "us=%.3f low_us=%.3f high_us=%.3f",
               us[us.size() / 2],
               us[us.size() / 4],
               us[us.size() * 3 / 4]);
  return report.finish();
}

}  // namespace gpu

int main(int argc, char** argv) {
  return gpu::run(argc, argv);
}
