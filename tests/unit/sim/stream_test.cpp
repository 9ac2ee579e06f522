// SPDX-License-Identifier: MIT
// Streams, events, waits, hangs, host functions and the clock of the simulated driver.
#include "tests/catch.hpp"
#include "tests/unit/sim/calls.hpp"

#include <future>
#include <thread>

using namespace custash;
using namespace custash::sim;

TEST_CASE("work advances only when told", "[sim-stream]") {
  const Sim sim;
  const CUstream s = make_stream();
  CHECK(launch(s, {}) == CUDA_SUCCESS);
  CHECK(launch(s, {}) == CUDA_SUCCESS);
  CHECK(cuStreamQuery(s) == CUDA_ERROR_NOT_READY);
  CHECK(step());
  CHECK(pending() == 1);
  CHECK(cuStreamQuery(s) == CUDA_ERROR_NOT_READY);
  CHECK(cuStreamSynchronize(s) == CUDA_SUCCESS);
  CHECK(cuStreamQuery(s) == CUDA_SUCCESS);
  CHECK_FALSE(step());
}

TEST_CASE("a synchronise runs only what it needs", "[sim-stream]") {
  const Sim sim;
  const auto [a, b] = make_streams<2>();
  CHECK(launch(a, {}) == CUDA_SUCCESS);
  CHECK(launch(b, {}) == CUDA_SUCCESS);
  CHECK(cuStreamSynchronize(b) == CUDA_SUCCESS);
  CHECK(cuStreamQuery(a) == CUDA_ERROR_NOT_READY);
}

TEST_CASE("a wait on a never-recorded event is no operation", "[sim-stream]") {
  const Sim sim;
  const CUstream s = make_stream();
  const CUevent e = make_event();
  CHECK(cuStreamWaitEvent(s, e, 0) == CUDA_SUCCESS);
  CHECK(pending() == 0);
  CHECK(cuEventQuery(e) == CUDA_SUCCESS);
  CHECK(sim_test_wait(sim.context(), e) == CUDA_SUCCESS);
  CHECK(pending() == 0);
}

TEST_CASE("the legacy stream orders blocking streams and no others", "[sim-stream]") {
  const Sim sim;
  const CUstream blocking = make_stream(CU_STREAM_DEFAULT);
  const CUstream free_running = make_stream();
  hold(blocking);
  CHECK(launch(blocking, {}) == CUDA_SUCCESS);
  CHECK(launch(nullptr, {}) == CUDA_SUCCESS);
  CHECK(launch(free_running, {}) == CUDA_SUCCESS);
  run_all();
  CHECK(cuStreamQuery(free_running) == CUDA_SUCCESS);
  CHECK(cuStreamQuery(CU_STREAM_LEGACY) == CUDA_ERROR_NOT_READY);
  release(blocking);
  CHECK(cuStreamSynchronize(nullptr) == CUDA_SUCCESS);
  CHECK(cuStreamQuery(blocking) == CUDA_SUCCESS);

  hold(nullptr);
  CHECK(launch(nullptr, {}) == CUDA_SUCCESS);
  CHECK(launch(blocking, {}) == CUDA_SUCCESS);
  CHECK(launch_ptsz(nullptr, {}) == CUDA_SUCCESS);  // per-thread: a blocking stream
  run_all();
  CHECK(pending() == 3);
  release(nullptr);
  run_all();
  CHECK(pending() == 0);
}

TEST_CASE("the per-thread stream is another one in every thread", "[sim-stream]") {
  const Sim sim;
  unsigned long long here = 0;
  unsigned long long there = 0;
  CHECK(cuStreamGetId(CU_STREAM_PER_THREAD, &here) == CUDA_SUCCESS);
  std::thread([&] {
    cuCtxSetCurrent(sim.context());
    cuStreamGetId(CU_STREAM_PER_THREAD, &there);
  }).join();
  CHECK(here != there);
}

TEST_CASE("a stream destroyed with work to do finishes it", "[sim-stream]") {
  const Sim sim;
  const CUstream s = make_stream();
  bool ran = false;
  CHECK(launch(s, {.body = [&] { ran = true; }}) == CUDA_SUCCESS);
  CHECK(cuStreamDestroy(s) == CUDA_SUCCESS);
  CHECK(cuStreamQuery(s) == CUDA_ERROR_INVALID_HANDLE);
  CHECK_FALSE(ran);
  CHECK(cuCtxSynchronize() == CUDA_SUCCESS);
  CHECK(ran);
}

TEST_CASE("two kernels that need each other finish; one that needs nobody's flag is a hang",
          "[sim-stream]") {
  const Sim sim;
  const auto [a, b] = make_streams<2>();
  CHECK(launch(a, {.needs_flag = 1, .sets_flag = 2}) == CUDA_SUCCESS);
  CHECK(launch(b, {.needs_flag = 2, .sets_flag = 1}) == CUDA_SUCCESS);
  CHECK(cuCtxSynchronize() == CUDA_SUCCESS);
  CHECK_FALSE(hung());

  CHECK(launch(a, {.needs_flag = 3}) == CUDA_SUCCESS);
  CHECK(cuStreamSynchronize(b) == CUDA_SUCCESS);
  CHECK(cuStreamSynchronize(a) == CUDA_ERROR_LAUNCH_TIMEOUT);
  CHECK(hung());
}

TEST_CASE("a wait between two kernels that need each other hangs", "[sim-stream]") {
  const auto mode = GENERATE(Advance::Told, Advance::Seeded, Advance::Timed);
  const Sim sim({.advance = mode});
  const auto [a, b] = make_streams<2>();
  const CUevent fence = make_event();
  CHECK(launch(a, {.needs_flag = 1}) == CUDA_SUCCESS);
  CHECK(sim_test_record(sim.context(), fence) == CUDA_SUCCESS);
  CHECK(sim_test_wait(sim.context(), fence) == CUDA_SUCCESS);
  CHECK(launch(b, {.sets_flag = 1}) == CUDA_SUCCESS);
  CHECK(cuCtxSynchronize() == CUDA_ERROR_LAUNCH_TIMEOUT);
  CHECK(hung());
}

TEST_CASE("a stuck wait hopes for a thread that may still submit", "[sim-stream]") {
  const Sim sim;
  const CUstream a = make_stream();
  const CUstream b = make_stream();
  CHECK(launch(a, {.needs_flag = 1}) == CUDA_SUCCESS);
  std::promise<void> registered;
  std::thread other([&] {
    const Submitter self;
    registered.set_value();
    cuCtxSetCurrent(sim.context());
    launch(b, {.sets_flag = 1});
  });
  registered.get_future().wait();
  CHECK(cuStreamSynchronize(a) == CUDA_SUCCESS);
  CHECK_FALSE(hung());
  other.join();
}

TEST_CASE("two threads that wait for each other are a hang", "[sim-stream]") {
  const Sim sim;
  const CUstream a = make_stream();
  CHECK(launch(a, {.needs_flag = 1}) == CUDA_SUCCESS);
  const Submitter self;
  CUresult there = CUDA_SUCCESS;
  std::promise<void> registered;
  std::thread other([&] {
    const Submitter mine;
    registered.set_value();
    cuCtxSetCurrent(sim.context());
    there = cuStreamSynchronize(a);
  });
  registered.get_future().wait();
  const CUresult here = cuStreamSynchronize(a);
  other.join();
  CHECK(here == CUDA_ERROR_LAUNCH_TIMEOUT);
  CHECK(there == CUDA_ERROR_LAUNCH_TIMEOUT);
}

TEST_CASE("a host function runs in order and may not call the driver", "[sim-stream]") {
  const Sim sim({.host_function_thread = GENERATE(false, true)});
  const CUstream s = make_stream();
  static CUresult inside = CUDA_SUCCESS;
  static bool kernel_ran;
  static bool after_kernel;
  kernel_ran = after_kernel = false;
  CHECK(launch(s, {.body = [] { kernel_ran = true; }}) == CUDA_SUCCESS);
  CHECK(cuLaunchHostFunc(
            s,
            [](void*) {
              after_kernel = kernel_ran;
              CUdeviceptr p = 0;
              inside = cuMemAlloc(&p, 1);
            },
            nullptr) == CUDA_SUCCESS);
  CHECK(cuStreamSynchronize(s) == CUDA_SUCCESS);
  CHECK(after_kernel);
  CHECK(inside == CUDA_ERROR_NOT_PERMITTED);
}

TEST_CASE("the modelled clock runs streams side by side and a wait moves it", "[sim-stream]") {
  const Sim sim({.advance = Advance::Timed});
  const auto [a, b] = make_streams<2>();
  const Nanoseconds begin = now();
  CHECK(launch(a, {.duration = 60'000'000}) == CUDA_SUCCESS);
  CHECK(launch(b, {.duration = 60'000'000}) == CUDA_SUCCESS);
  CHECK(now() - begin < 100'000);
  CHECK(cuStreamQuery(b) == CUDA_ERROR_NOT_READY);
  CHECK(cuCtxSynchronize() == CUDA_SUCCESS);
  CHECK(now() - begin >= 60'000'000);
  CHECK(now() - begin < 61'000'000);
  CHECK(cuStreamQuery(a) == CUDA_SUCCESS);
  CHECK(driver_time() >= 60'000'000);
}

TEST_CASE("time passing completes timed work", "[sim-stream]") {
  const Sim sim({.advance = Advance::Timed});
  const CUstream s = make_stream();
  const CUevent e = make_event();
  CHECK(launch(s, {.duration = 50'000}) == CUDA_SUCCESS);
  CHECK(cuEventRecord(e, s) == CUDA_SUCCESS);
  CHECK(cuEventQuery(e) == CUDA_ERROR_NOT_READY);
  advance_clock(60'000);
  CHECK(cuEventQuery(e) == CUDA_SUCCESS);
}

TEST_CASE("an event and a stream of different contexts do not go together", "[sim-stream]") {
  const Sim sim;
  const CUevent e = make_event();
  CUcontext other = nullptr;
  CHECK(cuDevicePrimaryCtxRetain(&other, 1) == CUDA_SUCCESS);
  CHECK(cuCtxPushCurrent(other) == CUDA_SUCCESS);
  const CUstream s = make_stream();
  CHECK(cuEventRecord(e, s) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(sim_test_record(other, e) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(cuStreamWaitEvent(s, e, 0) == CUDA_SUCCESS);
}

TEST_CASE("elapsed time comes from the modelled clock", "[sim-stream]") {
  const Sim sim({.advance = GENERATE(Advance::Told, Advance::Timed)});
  CUevent a = nullptr;
  CUevent b = nullptr;
  CHECK(cuEventCreate(&a, 0) == CUDA_SUCCESS);
  CHECK(cuEventCreate(&b, 0) == CUDA_SUCCESS);
  CHECK(cuEventRecord(a, nullptr) == CUDA_SUCCESS);
  CHECK(launch(nullptr, {.duration = 2'000'000}) == CUDA_SUCCESS);
  CHECK(cuEventRecord(b, nullptr) == CUDA_SUCCESS);
  CHECK(cuEventSynchronize(b) == CUDA_SUCCESS);
  float ms = 0;
  CHECK(cuEventElapsedTime(&ms, a, b) == CUDA_SUCCESS);
  CHECK(ms >= 2.0F);
  CHECK(ms < 2.1F);
}
