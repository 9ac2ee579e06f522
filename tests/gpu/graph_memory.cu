// SPDX-License-Identifier: MIT
// Memory that is allocated and freed while a stream captures. A loader's batches beside
// captures come and go as they do without a capture. With --pooled, for an allocator that keeps
// memory for graphs: what a graph writes is nobody else's while the graph or an executable of
// it lives, whoever allocated it and however the graph got its address. Then it is used again.
//
//   graph_memory [--quick] [--pooled]
#include "kernels.cuh"

#include <algorithm>
#include <functional>
#include <thread>
#include <vector>

namespace gpu {

constexpr std::size_t kBytes = 3 * kMiB;
constexpr Word kOfGraph = 0xA5A5A5A5;
constexpr Word kOfOthers = 0x5B5B5B5B;

static __global__ void fill_by_table(Word* const* table, std::size_t words) {
  for (std::size_t i = threadIdx.x; i < words; i += blockDim.x)
    table[0][i] = kOfGraph;
}

static void elsewhere(const std::function<void()>& work) {
  std::thread([&] {
    CUDA_OK(cudaSetDevice(0));
    // As PyTorch does: what the driver may do beside a capture is this thread's to say.
    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    CUDA_OK(cudaThreadExchangeStreamCaptureMode(&mode));
    work();
  }).join();
}

struct Bed {
  Bed(int argc, char** argv)
      : quick(has_flag(argc, argv, "--quick")), pooled(has_flag(argc, argv, "--pooled")) {
    for (cudaStream_t stream : {s1, s2})
      warm_up(stream, wrong);
    fill_by_table<<<1, 256, 0, s1>>>(table, 0);
    CUDA_OK(cudaDeviceSynchronize());
  }

  const bool quick;
  const bool pooled;
  Report report;
  WrongWords wrong;
  cudaStream_t s1 = new_stream();
  cudaStream_t s2 = new_stream();
  Word** table = static_cast<Word**>(device_memory(512));
  int most_blocks = 64;  // that have lived at once, but for a few
};

// More batches than the device holds, if none of them were freed.
static void loader(Bed& bed) {
  const std::size_t free = free_memory();
  const std::size_t bytes = free / 40;
  void* target = device_memory(kBytes);
  cudaGraph_t older = nullptr;
  CUDA_OK(cudaStreamBeginCapture(bed.s1, cudaStreamCaptureModeThreadLocal));
  fill(bed.s1, target, kBytes, kOfGraph);
  CUDA_OK(cudaStreamEndCapture(bed.s1, &older));
  int refused = 0;
  std::size_t least = free;
  const int rounds = 60;
  for (int i = 0; i < rounds && refused == 0; ++i) {
    cudaGraph_t graph = nullptr;
    CUDA_OK(cudaStreamBeginCapture(bed.s1, cudaStreamCaptureModeThreadLocal));
    fill(bed.s1, target, kBytes, kOfGraph);
    std::thread([&] {
      CUDA_OK(cudaSetDevice(0));
      void* batch = nullptr;
      if (cudaMalloc(&batch, bytes) != cudaSuccess) {
        ++refused;
        cudaGetLastError();
        return;
      }
      fill(bed.s2, batch, kBytes, kOfOthers);
      CUDA_OK(cudaStreamSynchronize(bed.s2));
      CUDA_OK(cudaFree(batch));
    }).join();
    CUDA_OK(cudaStreamEndCapture(bed.s1, &graph));
    CUDA_OK(cudaGraphDestroy(graph));
    least = std::min(least, free_memory());
  }
  CUDA_OK(cudaGraphDestroy(older));
  CUDA_OK(cudaFree(target));
  bed.report.check(refused == 0 && free - least < 4 * bytes,
                   "graph_memory_loader",
                   "rounds=%d batch_mib=%zu refused=%d held_mib=%zu",
                   rounds,
                   bytes / kMiB,
                   refused,
                   (free - least) / kMiB);
}

// How the graph writes to a block, in a capture on the first stream.
struct Way {
  const char* name;
  bool by_its_thread;  // the block's own thread submits the work
  std::function<void(Bed&, void*)> work;
};

static void write_by_table(Bed& bed, void* p) {
  static Word** pinned = nullptr;
  if (pinned == nullptr) CUDA_OK(cudaMallocHost(reinterpret_cast<void**>(&pinned), 512));
  CUDA_OK(cudaStreamSynchronize(bed.s2));
  pinned[0] = static_cast<Word*>(p);
  CUDA_OK(cudaMemcpyAsync(bed.table, pinned, 512, cudaMemcpyHostToDevice, bed.s1));
  fill_by_table<<<1, 256, 0, bed.s1>>>(bed.table, kBytes / sizeof(Word));
  CUDA_OK(cudaGetLastError());
}

static const Way kWays[] = {
    {"kernel", false, [](Bed& bed, void* p) { fill(bed.s1, p, kBytes, kOfGraph); }},
    {"memset",
     false,
     [](Bed& bed, void* p) { CUDA_OK(cudaMemsetAsync(p, 0xA5, kBytes, bed.s1)); }},
    {"table", false, write_by_table},
    {"backward", true, [](Bed& bed, void* p) { fill(bed.s1, p, kBytes, kOfGraph); }},
};

// Blocks of others, while the executable (null: none) is launched. Whether one of them is `p`.
static bool others_get(Bed& bed,
                       cudaGraphExec_t exec,
                       const void* p,
                       unsigned long long* wrong) {
  std::vector<void*> others;
  bool found = false;
  if (exec == nullptr) bed.most_blocks += 16;  // more than are free, so that `p` is among them
  const int count = exec != nullptr ? 64 : bed.most_blocks;
  for (int i = 0; i < count; ++i) {
    others.push_back(device_memory(kBytes));
    found = found || others.back() == p;
    fill(bed.s2, others.back(), kBytes, kOfOthers);
  }
  CUDA_OK(cudaStreamSynchronize(bed.s2));
  if (exec != nullptr) CUDA_OK(cudaGraphLaunch(exec, bed.s1));
  CUDA_OK(cudaStreamSynchronize(bed.s1));
  for (void* each : others) {
    *wrong += bed.wrong.in(each, kBytes, kOfOthers);
    CUDA_OK(cudaFree(each));
  }
  return found;
}

static void one_way(Bed& bed, const Way& way) {
  unsigned long long wrong = 0;
  int early = 0;
  int late = 0;
  const int rounds = bed.quick ? 3 : 20;
  for (int i = 0; i < rounds; ++i) {
    void* p = nullptr;
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    CUDA_OK(cudaStreamBeginCapture(bed.s1, cudaStreamCaptureModeRelaxed));
    elsewhere([&] {
      p = device_memory(kBytes);
      if (way.by_its_thread) way.work(bed, p);
    });
    if (!way.by_its_thread) way.work(bed, p);
    elsewhere([&] { CUDA_OK(cudaFree(p)); });
    CUDA_OK(cudaStreamEndCapture(bed.s1, &graph));
    CUDA_OK(cudaGraphInstantiateWithFlags(&exec, graph, 0));
    CUDA_OK(cudaGraphDestroy(graph));
    early += others_get(bed, exec, p, &wrong) ? 1 : 0;
    CUDA_OK(cudaGraphExecDestroy(exec));
    late += others_get(bed, nullptr, p, &wrong) ? 1 : 0;
  }
  bed.report.check(wrong == 0 && early == 0 && late == rounds,
                   std::string("graph_memory_") + way.name,
                   "rounds=%d while_it_lives=%d afterwards=%d wrong=%llu",
                   rounds,
                   early,
                   late,
                   wrong);
}

static int run(int argc, char** argv) {
  need_devices(1);
  Bed bed(argc, argv);
  // First: they count on it that few blocks are free.
  if (bed.pooled)
    for (const Way& way : kWays)
      one_way(bed, way);
  loader(bed);
  return bed.report.finish();
}

}  // namespace gpu

int main(int argc, char** argv) {
  return gpu::run(argc, argv);
}
