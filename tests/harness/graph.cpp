// SPDX-License-Identifier: MIT
#include "tests/harness/graph.hpp"

#include "tests/harness/detector.hpp"

#include <algorithm>
#include <optional>

namespace custash::harness {
namespace {

struct Capturing {
  Stream stream;
  std::shared_ptr<GraphMemory> memory;
};

thread_local std::optional<Capturing> capturing_now;

// Allocations are not part of the capture: this thread's calls are let through while it lasts.
class RelaxedMode {
 public:
  RelaxedMode() { check(cudaThreadExchangeStreamCaptureMode(&mode_), "capture mode"); }

  ~RelaxedMode() { (void)cudaThreadExchangeStreamCaptureMode(&mode_); }

  RelaxedMode(const RelaxedMode&) = delete;
  RelaxedMode& operator=(const RelaxedMode&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

// Ends the capture where the work threw.
class CaptureScope {
 public:
  explicit CaptureScope(const Stream& stream) : stream_(stream) {
    check(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal),
          "cudaStreamBeginCapture");
    capturing_now = Capturing{stream, std::make_shared<GraphMemory>()};
  }

  ~CaptureScope() {
    if (!capturing_now) return;
    capturing_now.reset();
    cudaGraph_t broken = nullptr;
    (void)cudaStreamEndCapture(stream_.get(), &broken);
    if (broken != nullptr) (void)cudaGraphDestroy(broken);
    (void)cudaGetLastError();
  }

  CaptureScope(const CaptureScope&) = delete;
  CaptureScope& operator=(const CaptureScope&) = delete;

  cudaGraph_t end() {
    capturing_now.reset();
    cudaGraph_t graph = nullptr;
    check(cudaStreamEndCapture(stream_.get(), &graph), "cudaStreamEndCapture");
    return graph;
  }

 private:
  Stream stream_;
};

}  // namespace

GraphMemory::~GraphMemory() {
  for (const Block& block : blocks_) {
    try {
      detector::freed(block.memory, nullptr);
    } catch (const CudaError&) {
      // As where storage is freed: the device may be gone.
    }
    (void)cudaFree(block.memory);
  }
}

std::shared_ptr<GraphMemory> GraphMemory::capturing(const Stream& stream) {
  if (!capturing_now || !(capturing_now->stream == stream)) return nullptr;
  return capturing_now->memory;
}

void* GraphMemory::take(Bytes bytes) {
  const auto fits = std::find_if(blocks_.begin(), blocks_.end(), [&](const Block& block) {
    return !block.taken && block.bytes >= bytes && block.bytes <= 2 * bytes;
  });
  if (fits != blocks_.end()) {
    fits->taken = true;
    return fits->memory;
  }
  const RelaxedMode relaxed;
  void* memory = nullptr;
  check(cudaMalloc(&memory, bytes), "cudaMalloc for a graph");
  detector::allocated(memory, bytes, nullptr);
  blocks_.push_back({memory, bytes, true});
  return memory;
}

void GraphMemory::put_back(void* memory) {
  for (Block& block : blocks_)
    if (block.memory == memory) block.taken = false;
}

Bytes GraphMemory::bytes() const {
  Bytes sum = 0;
  for (const Block& block : blocks_)
    sum += block.bytes;
  return sum;
}

Graph Graph::capture(const Stream& stream, const std::function<void()>& work) {
  use_device(stream.device());
  const StreamGuard current(stream);
  CaptureScope scope(stream);
  const std::shared_ptr<GraphMemory> memory = capturing_now->memory;
  work();
  cudaGraph_t graph = scope.end();
  cudaGraphExec_t exec = nullptr;
  const cudaError_t made = cudaGraphInstantiateWithFlags(&exec, graph, 0);
  check(cudaGraphDestroy(graph), "cudaGraphDestroy");
  check(made, "cudaGraphInstantiate");
  return {memory, {exec, [](cudaGraphExec_t gone) { (void)cudaGraphExecDestroy(gone); }}};
}

void Graph::replay() const {
  replay(Stream::current());
}

void Graph::replay(const Stream& stream) const {
  use_device(stream.device());
  check(cudaGraphLaunch(exec_.get(), stream.get()), "cudaGraphLaunch");
}

}  // namespace custash::harness
