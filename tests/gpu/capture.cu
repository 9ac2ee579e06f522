// SPDX-License-Identifier: MIT
// Stream capture with memory traffic around it: in each capture mode another thread mallocs,
// works and frees; blocks are freed with work in flight before and during a capture; memory is
// allocated while capturing and between launches of a captured graph. Every replay must give
// the right words. The driver's own cudaMalloc and cudaFree end a global capture from any
// thread; an allocator's hits need not, so that is counted, and with --pooled it fails.
//
//   capture [--quick] [--pooled]
#include "kernels.cuh"

#include <atomic>
#include <thread>

namespace gpu {

constexpr unsigned long long kLateNs = 3'000'000;
constexpr std::size_t kSizes[] = {4 * kKiB, 3 * kMiB};
constexpr Word kLateWords = 0xA5A5A5A5;
constexpr Word kNextWords = 0x5B5B5B5B;
constexpr Word kThirdWords = 0x3C3C3C3C;

static __global__ void add_one(Word* counter) {
  *counter += 1;
}

// Another thread's traffic: malloc, write, check, free, over and over. It makes no other call
// that a capture forbids: it never waits and never asks.
class Traffic {
 public:
  explicit Traffic(WrongWords& wrong) : wrong_(wrong), thread_([this] { work(); }) {}

  ~Traffic() {
    stop_ = true;
    thread_.join();
  }

  Traffic(const Traffic&) = delete;
  Traffic& operator=(const Traffic&) = delete;

  int refused() const { return refused_; }

  int rounds() const { return rounds_; }

 private:
  void work() {
    CUDA_OK(cudaSetDevice(0));
    cudaStream_t stream = stream_;
    std::vector<void*> unfreed;  // refused by a capture: freed at the end
    for (Word i = 0; !stop_; ++i) {
      const std::size_t bytes = kSizes[i % 2];
      void* p = nullptr;
      if (cudaMalloc(&p, bytes) != cudaSuccess) {
        refuse();
        continue;
      }
      fill(stream, p, bytes, i, 20'000);
      verify(stream, p, bytes, i, wrong_.device());
      if (cudaFree(p) != cudaSuccess) {
        refuse();
        unfreed.push_back(p);
      }
      ++rounds_;
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    CUDA_OK(cudaStreamSynchronize(stream));
    for (void* p : unfreed)
      cudaFree(p);  // some were freed all the same
    cudaGetLastError();
    CUDA_OK(cudaStreamDestroy(stream));
  }

  void refuse() {
    ++refused_;
    cudaGetLastError();
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }

  WrongWords& wrong_;
  cudaStream_t stream_ = new_stream();
  std::atomic<bool> stop_{false};
  std::atomic<int> refused_{0};
  std::atomic<int> rounds_{0};
  std::thread thread_;
};

struct Graph {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;

  // False when the capture was invalidated.
  bool end(cudaStream_t stream) {
    const cudaError_t code = cudaStreamEndCapture(stream, &graph);
    if (code == cudaErrorStreamCaptureInvalidated) {
      cudaGetLastError();
      return false;
    }
    CUDA_OK(code);
    CUDA_OK(cudaGraphInstantiateWithFlags(&exec, graph, 0));
    return true;
  }

  void must_end(cudaStream_t stream) {
    if (!end(stream)) die("capture invalidated", cudaErrorStreamCaptureInvalidated, __LINE__);
  }

  void launch(cudaStream_t stream) const { CUDA_OK(cudaGraphLaunch(exec, stream)); }

  void destroy() const {
    CUDA_OK(cudaGraphExecDestroy(exec));
    CUDA_OK(cudaGraphDestroy(graph));
  }
};

struct Bed {
  explicit Bed(int argc, char** argv)
      : quick(has_flag(argc, argv, "--quick")), pooled(has_flag(argc, argv, "--pooled")) {
    for (cudaStream_t stream : {s1, s2, s3})
      warm_up(stream, wrong);
    add_one<<<1, 1, 0, s1>>>(counter);
    CUDA_OK(cudaDeviceSynchronize());
  }

  int rounds(int full) const { return quick ? std::max(3, full / 5) : full; }

  void reset_counter() {
    CUDA_OK(cudaMemset(counter, 0, sizeof(Word)));
    CUDA_OK(cudaDeviceSynchronize());
  }

  Word count() {
    Word value = 0;
    CUDA_OK(cudaDeviceSynchronize());
    CUDA_OK(cudaMemcpy(&value, counter, sizeof(Word), cudaMemcpyDeviceToHost));
    return value;
  }

  const bool quick;
  const bool pooled;
  Report report;
  WrongWords wrong;
  cudaStream_t s1 = new_stream();
  cudaStream_t s2 = new_stream();
  cudaStream_t s3 = new_stream();
  Word* counter = static_cast<Word*>(device_memory(512));
};

static void modes(Bed& bed) {
  const struct {
    const char* name;
    cudaStreamCaptureMode mode;
  } each_mode[] = {{"global", cudaStreamCaptureModeGlobal},
                   {"thread_local", cudaStreamCaptureModeThreadLocal},
                   {"relaxed", cudaStreamCaptureModeRelaxed}};

  for (const auto& each : each_mode) {
    const int captures = bed.rounds(60);
    int invalidated = 0;
    int refused = 0;
    int traffic_rounds = 0;
    int bad_replays = 0;
    {
      Traffic traffic(bed.wrong);
      std::this_thread::sleep_for(std::chrono::milliseconds(50));  // its pools are warm
      for (int i = 0; i < captures; ++i) {
        CUDA_OK(cudaMemsetAsync(bed.counter, 0, sizeof(Word), bed.s1));
        CUDA_OK(cudaStreamBeginCapture(bed.s1, each.mode));
        for (int k = 0; k < 8; ++k) {
          add_one<<<1, 1, 0, bed.s1>>>(bed.counter);
          cudaGetLastError();  // an invalidated capture refuses the launch: EndCapture says so
          std::this_thread::sleep_for(std::chrono::microseconds(40));
        }
        Graph graph;
        if (!graph.end(bed.s1)) {
          ++invalidated;
          continue;
        }
        for (int k = 0; k < 3; ++k)
          graph.launch(bed.s1);
        Word value = 0;
        CUDA_OK(
            cudaMemcpyAsync(&value, bed.counter, sizeof(Word), cudaMemcpyDeviceToHost, bed.s1));
        CUDA_OK(cudaStreamSynchronize(bed.s1));
        bad_replays += value == 24 ? 0 : 1;
        graph.destroy();
      }
      refused = traffic.refused();
      traffic_rounds = traffic.rounds();
    }
    const unsigned long long wrong = bed.wrong.take();
    const bool undisturbed = invalidated == 0 && refused == 0;
    const bool must_be = bed.pooled || each.mode != cudaStreamCaptureModeGlobal;
    bed.report.check(
        bad_replays == 0 && wrong == 0 && (undisturbed || !must_be),
        std::string("capture_beside_traffic_") + each.name,
        "captures=%d invalidated=%d refused=%d traffic=%d bad_replays=%d wrong=%llu",
        captures,
        invalidated,
        refused,
        traffic_rounds,
        bad_replays,
        wrong);
  }
}

struct Seen {
  bool same;  // the memory came back: else nothing can be wrong
  unsigned long long wrong = 0;
};

static void rounds_of(Bed& bed, const char* name, Seen (*round)(Bed&, std::size_t)) {
  unsigned long long wrong = 0;
  int same = 0;
  const int rounds = bed.rounds(20);
  for (int i = 0; i < rounds; ++i) {
    const Seen seen = round(bed, kSizes[i % 2]);
    same += seen.same ? 1 : 0;
    wrong += seen.wrong;
  }
  bed.report.check(wrong == 0, name, "rounds=%d same=%d wrong=%llu", rounds, same, wrong);
}

// A block freed with work in flight before a capture is asked for while it lasts, and written
// by the graph.
static Seen freed_before(Bed& bed, std::size_t bytes) {
  void* x = device_memory(bytes);
  fill(bed.s2, x, bytes, kLateWords, kLateNs);
  CUDA_OK(cudaFree(x));
  CUDA_OK(cudaStreamBeginCapture(bed.s1, cudaStreamCaptureModeRelaxed));
  void* y = device_memory(bytes);
  fill(bed.s1, y, bytes, kNextWords);
  Graph graph;
  graph.must_end(bed.s1);
  graph.launch(bed.s1);
  Seen seen{x == y};
  seen.wrong += bed.wrong.in(y, bytes, kNextWords);
  graph.destroy();
  CUDA_OK(cudaFree(y));
  return seen;
}

// A block freed by another thread, work in flight, while a capture lasts; asked for after it.
static Seen freed_during(Bed& bed, std::size_t bytes) {
  void* x = device_memory(bytes);
  void* y = device_memory(bytes);
  CUDA_OK(cudaStreamBeginCapture(bed.s1, cudaStreamCaptureModeRelaxed));
  fill(bed.s1, y, bytes, kNextWords);
  std::thread([&] {
    CUDA_OK(cudaSetDevice(0));
    fill(bed.s2, x, bytes, kLateWords, kLateNs);
    // As PyTorch does: what the driver may do beside a capture is this thread's to say.
    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    CUDA_OK(cudaThreadExchangeStreamCaptureMode(&mode));
    CUDA_OK(cudaFree(x));
  }).join();
  Graph graph;
  graph.must_end(bed.s1);
  void* z = device_memory(bytes);
  fill(bed.s3, z, bytes, kThirdWords);
  graph.launch(bed.s1);
  Seen seen{x == z};
  seen.wrong += bed.wrong.in(z, bytes, kThirdWords);
  seen.wrong += bed.wrong.in(y, bytes, kNextWords);
  graph.destroy();
  CUDA_OK(cudaFree(y));
  CUDA_OK(cudaFree(z));
  return seen;
}

// The graph works on memory allocated while it was captured; between its launches others take,
// scribble over and free memory of the same sizes.
static void between_launches(Bed& bed) {
  unsigned long long wrong = 0;
  const int rounds = bed.rounds(10);
  const int launches = 20;
  for (int i = 0; i < rounds; ++i) {
    const std::size_t bytes = kSizes[i % 2];
    bed.reset_counter();
    CUDA_OK(cudaStreamBeginCapture(bed.s1, cudaStreamCaptureModeRelaxed));
    void* inside = device_memory(bytes);
    fill(bed.s1, inside, bytes, kNextWords);
    add_one<<<1, 1, 0, bed.s1>>>(bed.counter);
    verify(bed.s1, inside, bytes, kNextWords, bed.wrong.device(), 20'000);
    Graph graph;
    graph.must_end(bed.s1);
    for (int k = 0; k < launches; ++k) {
      graph.launch(bed.s1);
      void* p = device_memory(bytes);
      fill(bed.s2, p, bytes, kLateWords);
      CUDA_OK(cudaFree(p));
    }
    wrong += bed.wrong.take();
    wrong += bed.count() == static_cast<Word>(launches) ? 0 : 1;
    wrong += bed.wrong.in(inside, bytes, kNextWords);
    graph.destroy();
    CUDA_OK(cudaFree(inside));
  }
  bed.report.check(wrong == 0,
                   "capture_malloc_between_launches",
                   "rounds=%d launches=%d wrong=%llu",
                   rounds,
                   launches,
                   wrong);
}

// A block allocated while capturing is freed once its graph is gone, late work still in flight.
static Seen freed_after(Bed& bed, std::size_t bytes) {
  CUDA_OK(cudaStreamBeginCapture(bed.s1, cudaStreamCaptureModeRelaxed));
  void* x = device_memory(bytes);
  fill(bed.s1, x, bytes, kLateWords, kLateNs);
  Graph graph;
  graph.must_end(bed.s1);
  graph.launch(bed.s1);
  graph.destroy();
  CUDA_OK(cudaFree(x));
  void* y = device_memory(bytes);
  fill(bed.s2, y, bytes, kNextWords);
  Seen seen{x == y};
  seen.wrong += bed.wrong.in(y, bytes, kNextWords);
  CUDA_OK(cudaFree(y));
  return seen;
}

static int run(int argc, char** argv) {
  need_devices(1);
  Bed bed(argc, argv);
  modes(bed);
  rounds_of(bed, "capture_block_freed_before", freed_before);
  rounds_of(bed, "capture_block_freed_during", freed_during);
  between_launches(bed);
  rounds_of(bed, "capture_block_freed_after_its_graph", freed_after);
  return bed.report.finish();
}

}  // namespace gpu

int main(int argc, char** argv) {
  return gpu::run(argc, argv);
}
