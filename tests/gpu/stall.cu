// SPDX-License-Identifier: MIT
// How long does an iteration take that allocates, works on its own stream, waits for that
// stream alone and frees, while another stream of the program is busy? NVIDIA/cudf#12222
// reports 0.07 ms alone and 449 ms beside other work, because cudaFree waits for the whole
// device. Prints medians: `alone: T ms`, `beside other work: T ms`.
//
//   stall [--quick] [--busy-ms T]     T: the length of each kernel on the other stream; default
//   100
#include "kernels.cuh"

namespace gpu {

constexpr std::size_t kBytes = 4 * kMiB;
constexpr Word kWords = 0x6B6B6B6B;

// One iteration, in milliseconds.
static double iteration(cudaStream_t stream, WrongWords& wrong) {
  const double start = now_us();
  void* a = device_memory(kBytes);
  void* b = device_memory(kBytes / 2);
  fill(stream, a, kBytes, kWords);
  fill(stream, b, kBytes / 2, kWords);
  verify(stream, a, kBytes, kWords, wrong.device());
  verify(stream, b, kBytes / 2, kWords, wrong.device());
  CUDA_OK(cudaStreamSynchronize(stream));
  CUDA_OK(cudaFree(a));
  CUDA_OK(cudaFree(b));
  return (now_us() - start) / 1000;
}

static int run(int argc, char** argv) {
  need_devices(1);
  const int rounds = has_flag(argc, argv, "--quick") ? 3 : 20;
  const double busy_ms = number_after(argc, argv, "--busy-ms", 100);
  const auto busy_ns = static_cast<unsigned long long>(busy_ms * 1e6);
  WrongWords wrong;
  cudaStream_t busy = new_stream();
  cudaStream_t own = new_stream();
  warm_up(busy, wrong);
  warm_up(own, wrong);

  std::vector<double> alone;
  std::vector<double> beside;
  for (int i = 0; i < rounds; ++i)
    alone.push_back(iteration(own, wrong));
  for (int i = 0; i < rounds; ++i) {
    spin(busy, busy_ns);
    beside.push_back(iteration(own, wrong));
    CUDA_OK(cudaStreamSynchronize(busy));
  }

  std::printf("alone: %.3f ms\n", median(alone));
  std::printf("beside other work: %.3f ms\n", median(beside));
  Report report;
  report.check(wrong.take() == 0, "stall", "rounds=%d", rounds);
  return report.finish();
}

}  // namespace gpu

int main(int argc, char** argv) {
  return gpu::run(argc, argv);
}
