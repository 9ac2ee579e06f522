// SPDX-License-Identifier: MIT
// Kernels that reach pinned memory by its own address, passed in every way that a program has.
// Bare, cudaFree of something else waits for them, so that the host may read after it; and a
// kernel that runs already may be handed memory, which nobody else writes any more. Right bare,
// and must be right under any allocator. Lines "info" measure and are never wrong. No device
// pointer to host memory is asked for, as that makes frees wait for every kernel. Every kernel
// that waits gives up after five seconds.
//
//   parameters [--quick]
#include "driver_calls.cuh"
#include "kernels.cuh"

#include <functional>

namespace gpu {

constexpr Word kLate = 0xA5A5A5A5;
constexpr Word kNext = 0x5B5B5B5B;
constexpr unsigned long long kLateNs = 20'000'000;

struct Nested {
  double before[5];
  Word* words[3];
  int after;
};

struct Large {
  Word* words[500];
};

static __global__ void write_late(Word* p) {
  spin_for(kLateNs);
  *p = kNext;
  __threadfence_system();
}

static __global__ void write_nested(int number, Nested nested) {
  spin_for(kLateNs);
  *nested.words[number] = kNext;
  __threadfence_system();
}

static __global__ void write_large(Large large) {
  spin_for(kLateNs);
  *large.words[499] = kNext;
  __threadfence_system();
}

static __global__ void write_indirectly(Word* const* place) {
  spin_for(kLateNs);
  **place = kNext;
  __threadfence_system();
}

// Waits until the host names memory, and fills that.
static __global__ void serve(Word* volatile* mailbox, std::size_t words, Word* outcome) {
  const unsigned long long start = global_ns();
  while (*mailbox == nullptr) {
    if (global_ns() - start > kGiveUpNs) {
      *outcome = kGaveUp;
      return;
    }
    __nanosleep(500);
  }
  Word* const memory = *mailbox;
  for (std::size_t i = threadIdx.x; i < words; i += blockDim.x)
    memory[i] = kNext;
  *outcome = kSeen;
}

struct Bed {
  Bed() {
    void* memory = nullptr;
    CUDA_OK(cudaMallocHost(&memory, 4 * kKiB));
    host = static_cast<Word*>(memory);
    CUDA_OK(cudaMallocHost(&memory, 4 * kKiB));
    mailbox = static_cast<Word**>(memory);
    warm_up(s, wrong);
    warm_up(t, wrong);
    Nested nested{};
    nested.words[0] = device;
    Large large{};
    large.words[499] = device;
    write_late<<<1, 1, 0, s>>>(device);
    write_nested<<<1, 1, 0, s>>>(0, nested);
    write_large<<<1, 1, 0, s>>>(large);
    CUDA_OK(cudaMemcpy(place, &device, sizeof device, cudaMemcpyHostToDevice));
    write_indirectly<<<1, 1, 0, s>>>(place);
    *mailbox = device;
    serve<<<1, 32, 0, s>>>(mailbox, 1, outcome);
    CUDA_OK(cudaDeviceSynchronize());
  }

  WrongWords wrong;
  cudaStream_t s = new_stream(), t = new_stream();
  Word* device = static_cast<Word*>(device_memory(512));
  Word* outcome = static_cast<Word*>(device_memory(512));
  Word** place = static_cast<Word**>(device_memory(512));
  Word* host = nullptr;
  Word** mailbox = nullptr;
};

struct Seen {
  bool written;
  double us;
};

// What the host reads after a free of something else.
inline Seen after_a_free(Bed& bed, const std::function<void()>& launch) {
  CUDA_OK(cudaDeviceSynchronize());
  *bed.host = 0;
  void* other = device_memory(64 * kKiB);
  launch();
  const double start = now_us();
  CUDA_OK(cudaFree(other));
  const double took = now_us() - start;
  const bool written = *static_cast<volatile Word*>(bed.host) == kNext;
  CUDA_OK(cudaDeviceSynchronize());
  return {written, took};
}

inline void way(Bed& bed,
                Report& report,
                const char* name,
                const std::function<void()>& launch) {
  const Seen seen = after_a_free(bed, launch);
  report.check(seen.written, name, "free_us=%.0f", seen.us);
}

inline CUfunction function_of(const void* symbol) {
  cudaFunction_t function = nullptr;
  CUDA_OK(cudaGetFuncBySymbol(&function, symbol));
  return function;
}

inline int launch_by_driver(CUfunction function,
                            cudaStream_t stream,
                            void** params,
                            void** extra) {
  return driver("cuLaunchKernel", function, 1U, 1U, 1U, 1U, 1U, 1U, 0U, stream, params, extra);
}

inline void launches(Bed& bed, Report& report) {
  const Seen apart = after_a_free(bed, [&] { write_late<<<1, 1, 0, bed.s>>>(bed.device); });
  std::printf("info parameters_of_device_memory free_us=%.0f\n", apart.us);

  way(bed, report, "parameters_direct", [&] { write_late<<<1, 1, 0, bed.s>>>(bed.host); });
  Nested nested{};
  nested.words[2] = bed.host;
  way(bed, report, "parameters_by_value", [&] { write_nested<<<1, 1, 0, bed.s>>>(2, nested); });
  Large large{};
  large.words[499] = bed.host;
  way(bed, report, "parameters_large", [&] { write_large<<<1, 1, 0, bed.s>>>(large); });

  void* params[] = {&bed.host};
  way(bed, report, "parameters_ex", [&] {
    cudaLaunchConfig_t config{};
    config.gridDim = 1;
    config.blockDim = 1;
    config.stream = bed.s;
    CUDA_OK(cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(write_late), params));
  });
  int cooperates = 0;
  CUDA_OK(cudaDeviceGetAttribute(&cooperates, cudaDevAttrCooperativeLaunch, 0));
  if (cooperates != 0)
    way(bed, report, "parameters_cooperative", [&] {
      CUDA_OK(cudaLaunchCooperativeKernel(
          reinterpret_cast<const void*>(write_late), 1, 1, params, 0, bed.s));
    });

  const CUfunction function = function_of(reinterpret_cast<const void*>(write_late));
  way(bed, report, "parameters_function", [&] {
    (void)launch_by_driver(function, bed.s, params, nullptr);
  });
  std::size_t bytes = sizeof bed.host;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER,
                   &bed.host,
                   CU_LAUNCH_PARAM_BUFFER_SIZE,
                   &bytes,
                   CU_LAUNCH_PARAM_END};
  way(bed, report, "parameters_extra", [&] {
    (void)launch_by_driver(function, bed.s, nullptr, extra);
  });
#if CUDART_VERSION >= 12010
  cudaKernel_t kernel = nullptr;
  CUDA_OK(cudaGetKernel(&kernel, reinterpret_cast<const void*>(write_late)));
  way(bed, report, "parameters_kernel", [&] {
    (void)launch_by_driver(reinterpret_cast<CUfunction>(kernel), bed.s, params, nullptr);
  });
#endif

  void* registered = std::aligned_alloc(4 * kKiB, 4 * kKiB);
  CUDA_OK(cudaHostRegister(registered, 4 * kKiB, cudaHostRegisterDefault));
  Word* const pinned = bed.host;
  bed.host = static_cast<Word*>(registered);
  way(bed, report, "parameters_registered", [&] { write_late<<<1, 1, 0, bed.s>>>(bed.host); });
  bed.host = pinned;
  CUDA_OK(cudaHostUnregister(registered));
  std::free(registered);

  CUDA_OK(cudaMemcpy(bed.place, &bed.host, sizeof bed.host, cudaMemcpyHostToDevice));
  const Seen nowhere =
      after_a_free(bed, [&] { write_indirectly<<<1, 1, 0, bed.s>>>(bed.place); });
  std::printf("info parameters_in_device_memory seen=%d free_us=%.0f\n",
              nowhere.written ? 1 : 0,
              nowhere.us);
}

inline cudaGraphExec_t instantiate(cudaGraph_t graph) {
  cudaGraphExec_t exec = nullptr;
#if CUDART_VERSION >= 12000
  CUDA_OK(cudaGraphInstantiate(&exec, graph, 0));
#else
  CUDA_OK(cudaGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
#endif
  return exec;
}

// Nodes count for good, in whichever graph they are: each way in a process of its own tells
// them apart.
inline void graphs(Bed& bed, Report& report, int which) {
  void* harmless[] = {&bed.device};
  void* reaching[] = {&bed.host};
  cudaKernelNodeParams node{};
  node.func = reinterpret_cast<void*>(write_late);
  node.gridDim = node.blockDim = 1;
  node.kernelParams = which == 1 ? reaching : harmless;
  cudaGraph_t graph = nullptr;
  cudaGraphNode_t added = nullptr;
  cudaGraphExec_t exec = nullptr;
  if (which == 0) {
    CUDA_OK(cudaStreamBeginCapture(bed.s, cudaStreamCaptureModeThreadLocal));
    write_late<<<1, 1, 0, bed.s>>>(bed.host);
    CUDA_OK(cudaStreamEndCapture(bed.s, &graph));
  } else {
    CUDA_OK(cudaGraphCreate(&graph, 0));
    CUDA_OK(cudaGraphAddKernelNode(&added, graph, nullptr, 0, &node));
  }
  node.kernelParams = reaching;
  if (which == 2) CUDA_OK(cudaGraphKernelNodeSetParams(added, &node));
  exec = instantiate(graph);
  if (which == 3) CUDA_OK(cudaGraphExecKernelNodeSetParams(exec, added, &node));
  const char* const names[] = {
      "parameters_captured", "parameters_node", "parameters_set", "parameters_set_exec"};
  way(bed, report, names[which], [&] { CUDA_OK(cudaGraphLaunch(exec, bed.s)); });
  CUDA_OK(cudaGraphExecDestroy(exec));
  CUDA_OK(cudaGraphDestroy(graph));
}

// Freed under a kernel that writes late; handed to one that runs.
inline void hand_over(Bed& bed, Report& report, std::size_t bytes, int rounds) {
  unsigned long long wrong = 0;
  int served = 0;
  int same = 0;
  for (int i = 0; i < rounds; ++i) {
    void* p = device_memory(bytes);
    *bed.mailbox = nullptr;
    fill(bed.s, p, bytes, kLate, kLateNs);
    CUDA_OK(cudaFree(p));
    serve<<<1, 256, 0, bed.t>>>(bed.mailbox, bytes / sizeof(Word), bed.outcome);
    void* q = device_memory(bytes);
    same += p == q ? 1 : 0;
    *static_cast<Word* volatile*>(bed.mailbox) = static_cast<Word*>(q);
    CUDA_OK(cudaStreamSynchronize(bed.t));
    Word outcome = 0;
    CUDA_OK(
        cudaMemcpyAsync(&outcome, bed.outcome, sizeof outcome, cudaMemcpyDeviceToHost, bed.t));
    CUDA_OK(cudaStreamSynchronize(bed.t));
    served += outcome == kSeen ? 1 : 0;
    wrong += bed.wrong.in(q, bytes, kNext);
    CUDA_OK(cudaFree(q));
  }
  report.check(wrong == 0 && served == rounds,
               "parameters_mailbox",
               "bytes=%zu rounds=%d served=%d same=%d wrong=%llu",
               bytes,
               rounds,
               served,
               same,
               wrong);
}

static int run(int argc, char** argv) {
  need_devices(1);
  const int graph = static_cast<int>(number_after(argc, argv, "--graph", -1));
  Report report;
  Bed bed;
  if (graph >= 0 && graph < 4) {
    graphs(bed, report, graph);
    return report.finish();
  }
  const int rounds = has_flag(argc, argv, "--quick") ? 3 : 20;
  for (const std::size_t bytes : {std::size_t{512}, 4 * kMiB, 256 * kMiB})
    hand_over(bed, report, bytes, rounds);
  launches(bed, report);
  for (int which = 0; which < 4; ++which)
    graphs(bed, report, which);
  return report.finish();
}

}  // namespace gpu

int main(int argc, char** argv) {
  return gpu::run(argc, argv);
}
