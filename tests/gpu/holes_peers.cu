// SPDX-License-Identifier: MIT
// Two GPUs: memory in debt that graphs and kernels of the other device use, captures over both,
// and how much is held with peer access on. Right bare, and must be right under any allocator.
// Skips with fewer than two GPUs.
#include "../../interpose/api/custash.h"
#include "driver_calls.cuh"
#include "holes_bed.cuh"

#include <functional>
#include <thread>

#include <dlfcn.h>

namespace gpu {

static void use(int device) {
  CUDA_OK(cudaSetDevice(device));
}

struct Pair {
  Pair() {
    for (int device : {0, 1}) {
      use(device);
      stream[device] = new_stream();
      other[device] = new_stream();
      counter[device] = new WrongWords;
      warm_up(stream[device], *counter[device]);
      warm_up(other[device], *counter[device]);
    }
  }

  // On device 1: freed under a kernel that writes late, and had again; at `wanted` if it is
  // given.
  void* owed_block(const void* wanted = nullptr) {
    use(1);
    void* p = nullptr;
    void* q = nullptr;
    for (int i = 0; i < 5 && (p == nullptr || p != q); ++i) {
      p = wanted == nullptr ? device_memory(kBlock) : take_at(wanted, kBlock, &between);
      fill(stream[1], p, kBlock, kLate, kLateNs);
      CUDA_OK(cudaFree(p));
      if (q != nullptr) between.push_back(q);
      q = take_at(p, kBlock, &between);
    }
    if (q != p || (wanted != nullptr && q != wanted))
      std::printf("info moved=1: it cannot fail\n");
    return q;
  }

  void check(Report& report, const char* name, void* q) {
    const unsigned long long wrong = end_with(q);
    report.check(wrong == 0, name, "wrong=%llu", wrong);
  }

  // The words of q that are not the next owner's; frees it.
  unsigned long long end_with(void* q) {
    use(0);
    CUDA_OK(cudaDeviceSynchronize());
    use(1);
    const unsigned long long wrong = counter[1]->in(q, kBlock, kNext);
    between.push_back(q);
    for (void* each : between)
      CUDA_OK(cudaFree(each));
    between.clear();
    return wrong;
  }

  std::vector<void*> between;
  cudaStream_t stream[2], other[2];
  WrongWords* counter[2];
};

// A graph of device 0 whose node on device 1 writes q, after `ns`.
static cudaGraph_t capture_both(Pair& pair,
                                void* q,
                                const std::function<void()>& inside,
                                Word pattern = kNext,
                                unsigned long long ns = 0) {
  cudaGraph_t graph = nullptr;
  cudaEvent_t fork = nullptr, join = nullptr;
  use(0);
  CUDA_OK(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
  CUDA_OK(cudaStreamBeginCapture(pair.stream[0], cudaStreamCaptureModeThreadLocal));
  CUDA_OK(cudaEventRecord(fork, pair.stream[0]));
  use(1);
  CUDA_OK(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
  CUDA_OK(cudaStreamWaitEvent(pair.other[1], fork, 0));
  inside();
  fill(pair.other[1], q, kBlock, pattern, ns);
  CUDA_OK(cudaEventRecord(join, pair.other[1]));
  use(0);
  CUDA_OK(cudaStreamWaitEvent(pair.stream[0], join, 0));
  const cudaError_t ended = cudaStreamEndCapture(pair.stream[0], &graph);
  if (ended != cudaSuccess)
    std::printf("info capture_ended code=%d\n", static_cast<int>(ended));
  (void)cudaGetLastError();
  return graph;
}

static void graphs(Pair& pair, Report& report) {
  void* q = pair.owed_block();
  cudaGraph_t graph = capture_both(pair, q, [] {});
  report.check(graph != nullptr, "capture_over_two_devices");
  if (graph != nullptr) {
    cudaGraphExec_t exec = nullptr;
    CUDA_OK(cudaGraphInstantiate(&exec, graph, 0));
    CUDA_OK(cudaGraphDestroy(graph));
    // The kernel that writes late must still run when the graph is launched.
    use(1);
    CUDA_OK(cudaDeviceSynchronize());
    CUDA_OK(cudaFree(q));
    q = pair.owed_block(q);
    use(0);
    CUDA_OK(cudaGraphLaunch(exec, pair.stream[0]));
    CUDA_OK(cudaDeviceSynchronize());
    CUDA_OK(cudaGraphExecDestroy(exec));
  }
  pair.check(report, "graph_with_a_node_of_the_other_device", q);
}

// The node writes late; its memory is freed while the graph runs, and had again. Then which
// calls on device 1 wait for that node.
static void free_beside_graph(Pair& pair, Report& report) {
  use(1);
  void* p = device_memory(kBlock);
  cudaGraph_t graph = capture_both(
      pair, p, [] {}, kLate, kLateNs);
  report.check(graph != nullptr, "capture_of_a_late_node");
  if (graph == nullptr) {
    CUDA_OK(cudaFree(p));
    return;
  }
  cudaGraphExec_t exec = nullptr;
  CUDA_OK(cudaGraphInstantiate(&exec, graph, 0));
  CUDA_OK(cudaGraphLaunch(exec, pair.stream[0]));
  use(1);
  CUDA_OK(cudaFree(p));
  std::printf("info free_of_its_memory: launching_stream=%d\n",
              static_cast<int>(cudaStreamQuery(pair.stream[0])));
  void* q = take_at(p, kBlock, &pair.between);
  fill(pair.stream[1], q, kBlock, kNext);
  // The driver does not wait: such a program is wrong without custash, too.
  std::printf("info freed_while_a_graph_of_the_other_device_writes_it: wrong=%llu\n",
              pair.end_with(q));

  const auto ask = [&](const char* what, const std::function<void()>& wait) {
    CUDA_OK(cudaGraphLaunch(exec, pair.stream[0]));
    use(1);
    wait();
    std::printf("info %s: launching_stream=%d\n",
                what,
                static_cast<int>(cudaStreamQuery(pair.stream[0])));
    use(0);
    CUDA_OK(cudaDeviceSynchronize());
  };
  use(1);
  void* again = take_at(p, kBlock, &pair.between);  // the node writes to p once more
  const bool same = again == p;
  use(0);
  if (same) ask("device_synchronize_of_its_device", [] { CUDA_OK(cudaDeviceSynchronize()); });
  if (same)
    ask("context_record_of_its_device", [] {
      CUcontext context = nullptr;
      cudaEvent_t event = nullptr;
      CUDA_OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
      (void)driver("cuCtxGetCurrent", &context);
      (void)driver("cuCtxRecordEvent", context, static_cast<CUevent>(event));
      CUDA_OK(cudaEventSynchronize(event));
    });
  CUDA_OK(cudaGraphExecDestroy(exec));
  CUDA_OK(cudaGraphDestroy(graph));
  use(1);
  pair.between.push_back(again);
  for (void* each : pair.between)
    CUDA_OK(cudaFree(each));
  pair.between.clear();
  use(0);
}

// A copy by a stream of device 0 out of a block of device 1, which is freed before the copy
// runs. The driver's free waits for it while the devices have no access to each other.
static void free_beside_copy(Pair& pair, Report& report) {
  use(1);
  void* b = device_memory(kBlock);
  fill(pair.stream[1], b, kBlock, kNext);
  CUDA_OK(cudaDeviceSynchronize());
  use(0);
  void* a = device_memory(kBlock);
  fill(pair.stream[0], a, kBlock, kLate, kLateNs);
  CUDA_OK(cudaMemcpyPeerAsync(a, 0, b, 1, kBlock, pair.stream[0]));
  use(1);
  CUDA_OK(cudaFree(b));
  void* q = take_at(b, kBlock, &pair.between);
  fill(pair.stream[1], q, kBlock, kLate);
  CUDA_OK(cudaDeviceSynchronize());
  use(0);
  CUDA_OK(cudaDeviceSynchronize());
  const unsigned long long wrong = pair.counter[0]->in(a, kBlock, kNext);
  report.check(wrong == 0, "copy_out_of_a_freed_block", "wrong=%llu same=%d", wrong, q == b);
  CUDA_OK(cudaFree(a));
  (void)pair.end_with(q);
}

static void free_beside_capture(Pair& pair, Report& report) {
  use(1);
  void* q = device_memory(kBlock);
  void* p = device_memory(kBlock);
  cudaGraph_t graph = capture_both(pair, q, [&] {
    std::thread([&] {
      use(1);
      fill(pair.stream[1], p, kBlock, kLate, kLateNs);
      CUDA_OK(cudaFree(p));
    }).join();
  });
  report.check(graph != nullptr, "free_beside_a_capture_over_two_devices");
  if (graph != nullptr) CUDA_OK(cudaGraphDestroy(graph));
  CUDA_OK(cudaFree(q));
}

static void access(Pair& pair, Report& report) {
  void* q = pair.owed_block();
  use(0);
  CUDA_OK(cudaDeviceEnablePeerAccess(1, 0));
  fill(pair.stream[0], q, kBlock, kNext);
  pair.check(report, "access_enabled_after_the_hand_out", q);
  q = pair.owed_block();
  use(0);
  fill(pair.stream[0], q, kBlock, kNext);
  pair.check(report, "access_enabled_before_the_hand_out", q);
}

static void held(Pair& pair, Report& report) {
  const auto reserved = reinterpret_cast<int (*)(int, custash_counter_t*)>(
      dlsym(RTLD_DEFAULT, "custash_reserved_bytes"));
  const auto empty = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "custash_empty_cache"));
  std::size_t most = 0;
  use(1);
  CUDA_OK(cudaDeviceSynchronize());
  if (empty != nullptr) (void)empty();  // what the other checks have left
  for (int i = 0; i < 30; ++i) {
    void* p = device_memory(256 * kMiB);
    fill(pair.stream[1], p, kBlock, kLate, kLateNs);
    CUDA_OK(cudaFree(p));
    custash_counter_t now{};
    if (reserved != nullptr) (void)reserved(1, &now);
    most = std::max(most, static_cast<std::size_t>(now.current));
  }
  CUDA_OK(cudaDeviceSynchronize());
  report.check(most < 2 * kGiB, "held_with_peers", "held_mib=%zu", most / kMiB);
}

static int run() {
  need_devices(2);
  Report report;
  Pair pair;
  free_beside_copy(pair, report);
  graphs(pair, report);
  free_beside_capture(pair, report);
  free_beside_graph(pair, report);
  int can = 0;
  CUDA_OK(cudaDeviceCanAccessPeer(&can, 0, 1));
  if (can == 0) {
    std::printf("skip: the devices cannot reach each other's memory\n");
    return report.finish();
  }
  access(pair, report);
  held(pair, report);
  return report.finish();
}

}  // namespace gpu

int main() {
  return gpu::run();
}
