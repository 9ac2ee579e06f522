// SPDX-License-Identifier: MIT
// Green contexts of the simulated driver.
#include "tests/sim/green.hpp"

#include "tests/catch.hpp"
#include "tests/unit/sim/calls.hpp"

using namespace custash;
using namespace custash::sim;

namespace {

constexpr Bytes kBytes = 4_KiB;

struct Green {
  Green() {
    REQUIRE(context);
    there = green_stream(context);
    here = make_stream();
    event = make_event();
  }

  void use(CUcontext current) const { REQUIRE(cuCtxSetCurrent(current) == CUDA_SUCCESS); }

  Sim sim;
  GreenContext context = make_green();
  CUstream here = nullptr;
  CUstream there = nullptr;
  CUevent event = nullptr;
};

CUresult write(CUstream stream, Address p) {
  return launch(stream, {.accesses = {{p, kBytes, true}}});
}

}  // namespace

TEST_CASE("a stream tells its green context and the primary", "[sim-green]") {
  const Green green;
  CUcontext regular = nullptr;
  CUcontext of = nullptr;
  void* handle = nullptr;
  CHECK(cuStreamGetCtx(green.there, &of) == CUDA_SUCCESS);
  CHECK(of == green.context.context);
  CHECK(of != green.sim.context());
  CHECK(green::call("cuStreamGetCtx_v2", green.there, &regular, &handle) == CUDA_SUCCESS);
  CHECK(regular == green.sim.context());
  CHECK(handle == green.context.handle);
  CHECK(green::call("cuStreamGetCtx_v2", green.here, &regular, &handle) == CUDA_SUCCESS);
  CHECK(regular == green.sim.context());
  CHECK(handle == nullptr);
  green.use(green.context.context);
  CHECK(green::call("cuStreamGetCtx_v2", CU_STREAM_LEGACY, &regular, &handle) == CUDA_SUCCESS);
  CHECK(handle == green.context.handle);
  CHECK(green::call("cuStreamGetCtx_v2", CU_STREAM_PER_THREAD, &regular, &handle) ==
        CUDA_ERROR_INVALID_HANDLE);
}

TEST_CASE("memory had with a green context current outlives it", "[sim-green]") {
  Green green;
  green.use(green.context.context);
  const CUdeviceptr p = make_block(kBytes);
  CHECK(write(green.there, p) == CUDA_SUCCESS);
  green.use(green.sim.context());
  CHECK(write(green.here, p) == CUDA_SUCCESS);
  CHECK(cuStreamDestroy(green.there) == CUDA_SUCCESS);
  CHECK(destroy_green(green.context) == CUDA_SUCCESS);
  CHECK(destroy_green(green.context) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(cuMemFree(p) == CUDA_SUCCESS);
  CHECK(faults().empty());
  int active = 0;
  CHECK(cuDevicePrimaryCtxGetState(0, nullptr, &active) == CUDA_SUCCESS);
  CHECK(active == 1);
}

TEST_CASE("the primary's fences and waits cover green contexts, theirs do not cover it",
          "[sim-green]") {
  Green green;
  const CUevent second = make_event();
  hold(green.there);
  CHECK(launch(green.there, {}) == CUDA_SUCCESS);
  CHECK(sim_test_record(green.sim.context(), green.event) == CUDA_SUCCESS);
  hold(green.here);
  CHECK(launch(green.here, {}) == CUDA_SUCCESS);
  CHECK(green::call("cuGreenCtxRecordEvent", green.context.handle, second) == CUDA_SUCCESS);
  run_all();
  CHECK(cuEventQuery(green.event) == CUDA_ERROR_NOT_READY);
  release(green.there);
  run_all();
  CHECK(cuEventQuery(green.event) == CUDA_SUCCESS);
  CHECK(cuEventQuery(second) == CUDA_SUCCESS);
  // The wait of the primary holds back the green stream; one of the green context only its own.
  const CUstream free_running = make_stream();
  CHECK(cuEventRecord(green.event, green.here) == CUDA_SUCCESS);
  CHECK(green::call("cuGreenCtxWaitEvent", green.context.handle, green.event) == CUDA_SUCCESS);
  CHECK(launch(green.there, {}) == CUDA_SUCCESS);
  CHECK(launch(free_running, {}) == CUDA_SUCCESS);
  run_all();
  CHECK(cuStreamQuery(green.there) == CUDA_ERROR_NOT_READY);
  CHECK(cuStreamQuery(free_running) == CUDA_SUCCESS);
  CHECK(sim_test_wait(green.sim.context(), green.event) == CUDA_SUCCESS);
  CHECK(launch(free_running, {}) == CUDA_SUCCESS);
  run_all();
  CHECK(cuStreamQuery(free_running) == CUDA_ERROR_NOT_READY);
  release(green.here);
  CHECK(cuCtxSynchronize() == CUDA_SUCCESS);
  CHECK(cuStreamQuery(green.there) == CUDA_SUCCESS);  // of the primary: waits for all
}

TEST_CASE("a record on the primary breaks a capture on a green stream", "[sim-green]") {
  const Green green;
  CHECK(cuStreamBeginCapture(green.there, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS);
  CHECK(sim_test_record(green.sim.context(), green.event) ==
        CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CUgraph graph = nullptr;
  CHECK(cuStreamEndCapture(green.there, &graph) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

TEST_CASE("the reset of a primary context ends its green ones", "[sim-green]") {
  const Green green;
  CHECK(launch(green.there, {}) == CUDA_SUCCESS);
  CHECK(cuDevicePrimaryCtxReset(0) == CUDA_SUCCESS);
  CHECK(pending() == 0);
  CHECK(destroy_green(green.context) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(live_streams() == 0);
}

TEST_CASE("a green context's end waits for nothing, and its work is the primary's",
          "[sim-green]") {
  Green green;
  green.use(green.context.context);
  const CUdeviceptr p = make_block(kBytes);
  CHECK(write(green.there, p) == CUDA_SUCCESS);
  const OpId kernel = last_op(green.there);
  CHECK(destroy_green(green.context) == CUDA_SUCCESS);
  CHECK_FALSE(complete(kernel));
  green.use(green.sim.context());
  CHECK(cuCtxSynchronize() == CUDA_SUCCESS);
  CHECK(complete(kernel));
  CHECK(faults().empty());
}
