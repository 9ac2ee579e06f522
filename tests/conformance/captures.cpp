// SPDX-License-Identifier: MIT
// Captures in the three modes, what is allocated and freed meanwhile, and graphs that use it.
#include "tests/conformance/cases.hpp"

#include <thread>

namespace conformance {
namespace {

constexpr std::size_t kBytes = 2 * kMiB + 512;
constexpr cudaStreamCaptureMode kModes[] = {cudaStreamCaptureModeGlobal,
                                            cudaStreamCaptureModeThreadLocal,
                                            cudaStreamCaptureModeRelaxed};

int status_of(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  return cudaStreamIsCapturing(stream, &status) == cudaSuccess ? static_cast<int>(status) : -1;
}

// Begins, does, ends. What `work` answered and whether the capture was still valid, and its
// end.
struct Outcome {
  int work;
  int status;
  int end;
};

template <typename Work>
Outcome capture(cudaStreamCaptureMode mode, bool elsewhere, Work work) {
  const Stream stream;
  Outcome out{};
  cudaGraph_t graph = nullptr;
  if (cudaStreamBeginCapture(stream, mode) != cudaSuccess) return {-1, -1, -1};
  if (elsewhere) {
    std::thread([&] { out.work = work(); }).join();
  } else {
    out.work = work();
  }
  cudaGetLastError();
  out.status = status_of(stream);
  out.end = cudaStreamEndCapture(stream, &graph);
  cudaGetLastError();
  if (graph != nullptr) cudaGraphDestroy(graph);
  return out;
}

const char* name_of(cudaStreamCaptureMode mode) {
  return mode == cudaStreamCaptureModeGlobal    ? "global"
         : mode == cudaStreamCaptureModeRelaxed ? "relaxed"
                                                : "thread local";
}

// Bare CUDA refuses `work` and ends the capture where it counts as unsafe: by the capturing
// thread unless the mode is relaxed, by any thread where it is global. Here it is taken, and
// the capture goes on.
template <typename Work>
void unsafe_call(const char* what, Work work) {
  for (const cudaStreamCaptureMode mode : kModes) {
    for (const bool elsewhere : {false, true}) {
      const Outcome is = capture(mode, elsewhere, work);
      const bool unsafe = mode == cudaStreamCaptureModeGlobal ||
                          (mode == cudaStreamCaptureModeThreadLocal && !elsewhere);
      char text[160];
      const auto say = [&](const char* which, int value, int bare) {
        std::snprintf(text,
                      sizeof text,
                      "%s of %s, %s, %s thread",
                      which,
                      what,
                      name_of(mode),
                      elsewhere ? "another" : "its own");
        known_difference(text, value, bare, 0);
      };
      say("code", is.work, unsafe ? cudaErrorStreamCaptureUnsupported : 0);
      say("capture ended badly", is.status != cudaStreamCaptureStatusActive, unsafe ? 1 : 0);
      say("end", is.end, unsafe ? cudaErrorStreamCaptureInvalidated : 0);
    }
  }
}

}  // namespace

CASE(captures_frees) {
  SAY(cudaFree(nullptr));
  unsafe_call("cudaFree", [] {
    static void* p = nullptr;
    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    cudaThreadExchangeStreamCaptureMode(&mode);  // the allocation is not what is asked about
    cudaMalloc(&p, kBytes);
    cudaThreadExchangeStreamCaptureMode(&mode);
    const cudaError_t code = cudaFree(p);
    if (code != cudaSuccess) {
      cudaThreadExchangeStreamCaptureMode(&mode);
      cudaFree(p);
      cudaThreadExchangeStreamCaptureMode(&mode);
    }
    return code;
  });
}

CASE(captures_allocations) {
  SAY(cudaFree(nullptr));
  unsafe_call("cudaMalloc", [] {
    void* p = nullptr;
    const cudaError_t code = cudaMalloc(&p, kBytes);
    if (code == cudaSuccess) {
      cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
      cudaThreadExchangeStreamCaptureMode(&mode);
      cudaFree(p);
      cudaThreadExchangeStreamCaptureMode(&mode);
    }
    return code;
  });
}

CASE(captures_questions) {
  void* p = nullptr;
  SAY(cudaMalloc(&p, kBytes));
  for (const cudaStreamCaptureMode mode : kModes) {
    const Outcome attributes = capture(mode, false, [p] {
      cudaPointerAttributes told{};
      return cudaPointerGetAttributes(&told, p);
    });
    std::printf("%s: attributes %d %d %d\n",
                name_of(mode),
                attributes.work,
                attributes.status,
                attributes.end);
    const Outcome wait = capture(mode, false, [] { return cudaDeviceSynchronize(); });
    std::printf("%s: synchronise %d %d %d\n", name_of(mode), wait.work, wait.status, wait.end);
  }
  SAY(cudaFree(p));
}

// A graph that uses plain memory, launched, changed and launched again.
CASE(graphs_plain_memory) {
  for (const cudaStreamCaptureMode mode : kModes) {
    const Stream stream;
    void* p = nullptr;
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t ready = nullptr;
    SAY(cudaMalloc(&p, kBytes));
    SAY(cudaStreamBeginCapture(stream, mode));
    SAY(cudaMemsetAsync(p, 6, kBytes, stream));
    SAY(cudaStreamEndCapture(stream, &graph));
    SAY(cudaGraphInstantiateWithFlags(&ready, graph, 0));
    SAY(cudaGraphLaunch(ready, stream));
    SAY(cudaStreamSynchronize(stream));
    SAY(wrong_words(p, kBytes, 0x06060606));
    SAY(cudaMemset(p, 1, kBytes));
    SAY(cudaDeviceSynchronize());  // the stream does not wait for the default one
    SAY(cudaGraphLaunch(ready, stream));
    SAY(wrong_words(p, kBytes, 0x06060606));
    SAY(cudaGraphDestroy(graph));
    SAY(cudaGraphLaunch(ready, stream));
    SAY(cudaFree(p));
    SAY(cudaDeviceSynchronize());
    SAY(cudaGraphExecDestroy(ready));
  }
}

// cudaMallocAsync in a capture is a node of the graph; what a launch leaves, its free gives
// back.
CASE(graphs_with_memory_of_their_own) {
  const Stream stream;
  void* p = nullptr;
  void* out = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t ready = nullptr;
  SAY(cudaMalloc(&out, kBytes));
  SAY(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  SAY(cudaMallocAsync(&p, kBytes, stream));
  SAY(p != nullptr);
  SAY(cudaMemsetAsync(p, 7, kBytes, stream));
  SAY(cudaMemcpyAsync(out, p, kBytes, cudaMemcpyDeviceToDevice, stream));
  SAY(cudaFreeAsync(p, stream));
  SAY(status_of(stream));
  SAY(cudaStreamEndCapture(stream, &graph));
  std::size_t nodes = 0;
  SAY(cudaGraphGetNodes(graph, nullptr, &nodes));
  SAY(nodes);
  SAY(cudaGraphInstantiateWithFlags(&ready, graph, 0));
  for (int i = 0; i < 3; ++i) {
    SAY(cudaMemset(out, 0, kBytes));
    SAY(cudaDeviceSynchronize());
    SAY(cudaGraphLaunch(ready, stream));
    SAY(wrong_words(out, kBytes, 0x07070707));
  }
  SAY(cudaGraphExecDestroy(ready));
  SAY(cudaGraphDestroy(graph));
  SAY(cudaFree(out));
}

// What was allocated while a capture went on is the graph's as long as it lives: freed, and
// memory of its size taken and written elsewhere, a launch must not touch the new owner's.
CASE(graphs_keep_their_blocks) {
  const Stream stream;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t ready = nullptr;
  cudaStreamCaptureMode relaxed = cudaStreamCaptureModeRelaxed;
  void* p = nullptr;
  SAY(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  SAY(cudaThreadExchangeStreamCaptureMode(&relaxed));
  SAY(cudaMalloc(&p, kBytes));
  SAY(cudaThreadExchangeStreamCaptureMode(&relaxed));
  SAY(cudaMemsetAsync(p, 3, kBytes, stream));
  SAY(cudaStreamEndCapture(stream, &graph));
  SAY(cudaGraphInstantiateWithFlags(&ready, graph, 0));
  SAY(cudaGraphLaunch(ready, stream));
  SAY(wrong_words(p, kBytes, 0x03030303));
  void* more[8] = {};
  int wrong = 0;
  for (void*& q : more)
    wrong += cudaMalloc(&q, kBytes) != cudaSuccess || cudaMemset(q, 9, kBytes) != cudaSuccess;
  SAY(cudaGraphLaunch(ready, stream));
  for (void* q : more)
    wrong += wrong_words(q, kBytes, 0x09090909) != 0;
  for (void* q : more)
    wrong += cudaFree(q) != cudaSuccess;
  SAY(wrong);
  SAY(cudaGraphExecDestroy(ready));
  SAY(cudaGraphDestroy(graph));
  SAY(cudaFree(p));
}

// While one thread captures, others allocate, work and free; where the mode lets them, bare,
// too.
CASE(captures_beside_other_threads) {
  for (const cudaStreamCaptureMode mode :
       {cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeRelaxed}) {
    const Stream stream;
    cudaGraph_t graph = nullptr;
    void* target = nullptr;
    SAY(cudaMalloc(&target, kBytes));
    SAY(cudaStreamBeginCapture(stream, mode));
    int wrong = 0;
    std::thread([&wrong] {
      const Stream other;
      for (int i = 0; i < 10; ++i) {
        void* p = nullptr;
        unsigned word = 0;
        wrong += cudaMalloc(&p, kBytes) != cudaSuccess;
        wrong += cudaMemsetAsync(p, i, kBytes, other) != cudaSuccess;
        wrong += cudaMemcpyAsync(&word, p, 4, cudaMemcpyDeviceToHost, other) != cudaSuccess;
        wrong += cudaStreamSynchronize(other) != cudaSuccess;
        wrong += word != static_cast<unsigned>(i) * 0x01010101U;
        wrong += cudaFree(p) != cudaSuccess;
      }
    }).join();
    SAY(wrong);
    SAY(cudaMemsetAsync(target, 2, kBytes, stream));
    SAY(status_of(stream));
    SAY(cudaStreamEndCapture(stream, &graph));
    SAY(cudaGraphDestroy(graph));
    SAY(cudaFree(target));
  }
}

// A loader's batches beside captures, more than the device holds if none of them were freed.
// An older graph lives all the time.
CASE(captures_beside_a_loader) {
  constexpr int kRounds = 60;
  std::size_t free = 0;
  std::size_t total = 0;
  SAY(cudaMemGetInfo(&free, &total));
  const std::size_t bytes = free / (kRounds - 20) / kMiB * kMiB;
  const Stream stream;
  cudaGraph_t older = nullptr;
  void* target = nullptr;
  SAY(cudaMalloc(&target, kBytes));
  SAY(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  SAY(cudaMemsetAsync(target, 1, kBytes, stream));
  SAY(cudaStreamEndCapture(stream, &older));
  int wrong = 0;
  for (int i = 0; i < kRounds && wrong == 0; ++i) {
    cudaGraph_t graph = nullptr;
    wrong += cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) != cudaSuccess;
    wrong += cudaMemsetAsync(target, i, kBytes, stream) != cudaSuccess;
    std::thread([&] {
      const Stream other;
      void* batch = nullptr;
      wrong += cudaMalloc(&batch, bytes) != cudaSuccess;
      wrong += cudaMemsetAsync(batch, i, kBytes, other) != cudaSuccess;
      wrong += cudaStreamSynchronize(other) != cudaSuccess;
      wrong += cudaFree(batch) != cudaSuccess;
    }).join();
    wrong += cudaStreamEndCapture(stream, &graph) != cudaSuccess;
    wrong += cudaGraphDestroy(graph) != cudaSuccess;
  }
  SAY(wrong);
  SAY(cudaGraphDestroy(older));
  SAY(cudaFree(target));
}

// A capture refuses the launch of a graph, and is over.
CASE(captures_of_graphs) {
  const Stream stream;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t ready = nullptr;
  SAY(cudaGraphCreate(&graph, 0));
  SAY(cudaGraphInstantiateWithFlags(&ready, graph, 0));
  for (const cudaStreamCaptureMode mode : kModes) {
    cudaGraph_t outer = nullptr;
    SAY(cudaStreamBeginCapture(stream, mode));
    SAY(cudaGraphLaunch(ready, stream));
    SAY(cudaGraphLaunch(ready, stream));
    SAY_WITH_LAST(cudaStreamEndCapture(stream, &outer));
  }
  SAY(cudaGraphLaunch(ready, stream));
  SAY(cudaStreamSynchronize(stream));
}

CASE(captures_codes) {
  const Stream stream;
  cudaGraph_t graph = nullptr;
  SAY_WITH_LAST(cudaStreamEndCapture(stream, &graph));
  SAY_WITH_LAST(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeRelaxed));
  SAY(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  SAY_WITH_LAST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  SAY(status_of(stream));
  SAY(cudaStreamEndCapture(stream, &graph));
  SAY_WITH_LAST(cudaGraphDestroy(graph));
  void* p = nullptr;
  cudaGraph_t own = nullptr;
  SAY(cudaMalloc(&p, kBytes));
  SAY(cudaGraphCreate(&own, 0));
  SAY(call("cuStreamBeginCaptureToGraph",
           CUstream{stream},
           own,
           static_cast<const CUgraphNode*>(nullptr),
           static_cast<const void*>(nullptr),  // CUgraphEdgeData
           std::size_t{0},
           CU_STREAM_CAPTURE_MODE_RELAXED));
  SAY(cudaMemsetAsync(p, 6, kBytes, stream));
  SAY(cudaStreamEndCapture(stream, &graph));
  SAY(graph == own);
  SAY(cudaGraphDestroy(own));
  SAY(cudaFree(p));
}

}  // namespace conformance
