// SPDX-License-Identifier: MIT
// Stream capture in the simulated driver: legal and illegal calls, with their codes.
#include "tests/catch.hpp"
#include "tests/unit/sim/calls.hpp"

#include <thread>

using namespace custash;
using namespace custash::sim;

namespace {

CUstreamCaptureStatus status(CUstream s) {
  CUstreamCaptureStatus answer = CU_STREAM_CAPTURE_STATUS_NONE;
  CHECK(cuStreamIsCapturing(s, &answer) == CUDA_SUCCESS);
  return answer;
}

CUresult end(CUstream s) {
  CUgraph graph = nullptr;
  return cuStreamEndCapture(s, &graph);
}

}  // namespace

TEST_CASE("a captured kernel runs when its graph is launched", "[sim-capture]") {
  const Sim sim;
  const CUstream s = make_stream();
  int runs = 0;
  CHECK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
  CHECK(status(s) == CU_STREAM_CAPTURE_STATUS_ACTIVE);
  CHECK(launch(s, {.body = [&] { ++runs; }}) == CUDA_SUCCESS);
  CUgraph graph = nullptr;
  CHECK(cuStreamEndCapture(s, &graph) == CUDA_SUCCESS);
  run_all();
  CHECK(runs == 0);
  CUgraphExec exec = nullptr;
  CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0) == CUDA_SUCCESS);
  CHECK(cuGraphLaunch(exec, s) == CUDA_SUCCESS);
  CHECK(cuGraphLaunch(exec, s) == CUDA_SUCCESS);
  CHECK(cuStreamSynchronize(s) == CUDA_SUCCESS);
  CHECK(runs == 2);
}

TEST_CASE("context events break a capture in every mode", "[sim-capture]") {
  const auto mode = GENERATE(CU_STREAM_CAPTURE_MODE_GLOBAL,
                             CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                             CU_STREAM_CAPTURE_MODE_RELAXED);
  const bool record = GENERATE(true, false);
  const Sim sim;
  const CUstream s = make_stream();
  const CUevent e = make_event();
  CHECK(cuStreamBeginCapture(s, mode) == CUDA_SUCCESS);
  CUstreamCaptureMode relaxed = CU_STREAM_CAPTURE_MODE_RELAXED;
  CHECK(cuThreadExchangeStreamCaptureMode(&relaxed) == CUDA_SUCCESS);
  const CUresult result =
      record ? sim_test_record(sim.context(), e) : sim_test_wait(sim.context(), e);
  CHECK(result == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CHECK(status(s) == CU_STREAM_CAPTURE_STATUS_INVALIDATED);
  CHECK(launch(s, {}) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  CHECK(end(s) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  CHECK(status(s) == CU_STREAM_CAPTURE_STATUS_NONE);
}

TEST_CASE("unsafe calls from the capturing thread", "[sim-capture]") {
  const auto mode = GENERATE(CU_STREAM_CAPTURE_MODE_GLOBAL,
                             CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                             CU_STREAM_CAPTURE_MODE_RELAXED);
  const int call = GENERATE(0, 1, 2, 3);
  const bool relax = GENERATE(false, true);
  const Sim sim;
  const auto [s, other] = make_streams<2>();
  const CUevent e = make_event();
  const CUdeviceptr block = make_block(4096);
  CHECK(cuEventRecord(e, other) == CUDA_SUCCESS);
  CHECK(cuStreamSynchronize(other) == CUDA_SUCCESS);
  CHECK(cuStreamBeginCapture(s, mode) == CUDA_SUCCESS);
  CUstreamCaptureMode relaxed = CU_STREAM_CAPTURE_MODE_RELAXED;
  if (relax) CHECK(cuThreadExchangeStreamCaptureMode(&relaxed) == CUDA_SUCCESS);
  CUresult result = CUDA_SUCCESS;
  CUdeviceptr p = 0;
  if (call == 0) result = cuMemAlloc(&p, 1 << 20);
  if (call == 1) result = cuMemFree(block);
  if (call == 2) result = cuEventQuery(e);
  if (call == 3) result = cuStreamSynchronize(other);
  const bool legal = relax || mode == CU_STREAM_CAPTURE_MODE_RELAXED;
  CHECK(result == (legal ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED));
  CHECK(end(s) == (legal ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED));
}

TEST_CASE("an unsafe call from another thread breaks global captures only", "[sim-capture]") {
  const auto mode = GENERATE(CU_STREAM_CAPTURE_MODE_GLOBAL,
                             CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                             CU_STREAM_CAPTURE_MODE_RELAXED);
  const Sim sim;
  const CUstream s = make_stream();
  CHECK(cuStreamBeginCapture(s, mode) == CUDA_SUCCESS);
  CUresult result = CUDA_SUCCESS;
  std::thread([&] {
    cuCtxSetCurrent(sim.context());
    CUdeviceptr p = 0;
    result = cuMemAlloc(&p, 64);
  }).join();
  const bool legal = mode != CU_STREAM_CAPTURE_MODE_GLOBAL;
  CHECK(result == (legal ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED));
  CHECK(end(s) == (legal ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED));
}

TEST_CASE("other mistakes of a capture have codes of their own", "[sim-capture]") {
  const Sim sim;
  const CUstream s = make_stream(CU_STREAM_DEFAULT);
  const CUstream t = make_stream();
  const CUevent e = make_event();
  const CUevent outside = make_event();
  CHECK(cuStreamBeginCapture(nullptr, CU_STREAM_CAPTURE_MODE_GLOBAL) ==
        CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CHECK(end(s) == CUDA_ERROR_ILLEGAL_STATE);
  CHECK(cuEventRecord(outside, t) == CUDA_SUCCESS);
  CHECK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);

  SECTION("waiting on uncaptured work: isolation") {
    CHECK(cuStreamWaitEvent(s, outside, 0) == CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    CHECK(end(s) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  }
  SECTION("the legacy stream: implicit dependency") {
    CHECK(launch(nullptr, {}) == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    CHECK(end(s) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  }
  SECTION("the wrong thread") {
    CUresult result = CUDA_SUCCESS;
    std::thread([&] {
      cuCtxSetCurrent(sim.context());
      result = end(s);
    }).join();
    CHECK(result == CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    CHECK(end(s) == CUDA_SUCCESS);
  }
  SECTION("a fork that is not joined") {
    CHECK(launch(s, {}) == CUDA_SUCCESS);
    CHECK(cuEventRecord(e, s) == CUDA_SUCCESS);
    CHECK(cuStreamWaitEvent(t, e, 0) == CUDA_SUCCESS);
    CHECK(status(t) == CU_STREAM_CAPTURE_STATUS_ACTIVE);
    CHECK(launch(t, {}) == CUDA_SUCCESS);
    CHECK(end(t) == CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    CHECK(end(s) == CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    CHECK(status(t) == CU_STREAM_CAPTURE_STATUS_NONE);
  }
  SECTION("a fork that is joined") {
    CHECK(launch(s, {}) == CUDA_SUCCESS);
    CHECK(cuEventRecord(e, s) == CUDA_SUCCESS);
    CHECK(cuStreamWaitEvent(t, e, 0) == CUDA_SUCCESS);
    CHECK(launch(t, {}) == CUDA_SUCCESS);
    CHECK(cuEventRecord(e, t) == CUDA_SUCCESS);
    CHECK(cuStreamWaitEvent(s, e, 0) == CUDA_SUCCESS);
    CHECK(end(s) == CUDA_SUCCESS);
  }
  SECTION("a captured event may not be asked") {
    CHECK(cuEventRecord(e, s) == CUDA_SUCCESS);
    CHECK(cuEventQuery(e) == CUDA_ERROR_CAPTURED_EVENT);
    CHECK(end(s) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  }
  SECTION("recording on a stream that does not capture is legal") {
    CHECK(cuEventRecord(outside, t) == CUDA_SUCCESS);
    CHECK(end(s) == CUDA_SUCCESS);
  }
}
