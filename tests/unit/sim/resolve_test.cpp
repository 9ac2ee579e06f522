// SPDX-License-Identifier: MIT
// Looking up entries, injected failures, the call log and the life of the driver and its
// contexts.
#include "tests/catch.hpp"
#include "tests/unit/sim/calls.hpp"

#include <thread>

#include <sys/wait.h>
#include <unistd.h>

using namespace custash;
using namespace custash::sim;

namespace {

using Ask = CUresult (*)(const char*, void**, int, cuuint64_t, int*);

void* ask(const char* name, int version, cuuint64_t flags, int* status = nullptr) {
  void* found = nullptr;
  const auto get = reinterpret_cast<Ask>(resolve("cuGetProcAddress_v2"));
  CHECK(get(name, &found, version, flags, status) == CUDA_SUCCESS);
  return found;
}

}  // namespace

TEST_CASE("names, versions and flags lead to the exported entries", "[sim-resolve]") {
  reset();
  CHECK(ask("cuMemAlloc", 3020, 0) == resolve("cuMemAlloc_v2"));
  CHECK(ask("cuMemAlloc", 13000, 2) == resolve("cuMemAlloc_v2"));
  CHECK(ask("cuMemFreeAsync", 11020, 0) == resolve("cuMemFreeAsync"));
  CHECK(ask("cuMemFreeAsync", 11020, 2) == resolve("cuMemFreeAsync_ptsz"));
  CHECK(ask("cuMemcpyHtoD", 3020, 1) == resolve("cuMemcpyHtoD_v2"));
  CHECK(ask("cuMemcpyHtoD", 7000, 2) == resolve("cuMemcpyHtoD_v2_ptds"));
  CHECK(ask("cuStreamBeginCapture", 10000, 0) == resolve("cuStreamBeginCapture"));
  CHECK(ask("cuStreamBeginCapture", 10010, 0) == resolve("cuStreamBeginCapture_v2"));
  CHECK(ask("cuDevicePrimaryCtxReset", 7000, 0) == resolve("cuDevicePrimaryCtxReset"));
  CHECK(ask("cuDevicePrimaryCtxReset", 11000, 0) == resolve("cuDevicePrimaryCtxReset_v2"));
  CHECK(ask("cuGetProcAddress", 11030, 0) == resolve("cuGetProcAddress"));
  CHECK(ask("cuGetProcAddress", 12000, 0) == resolve("cuGetProcAddress_v2"));
  CHECK(ask("cuGraphInstantiate", 12000, 0) == resolve("cuGraphInstantiateWithFlags"));
  CHECK(ask("cuCtxCreate", 12050, 0) == resolve("cuCtxCreate_v4"));
  int status = -1;
  CHECK(ask("cuNoSuchThing", 13000, 0, &status) == nullptr);
  CHECK(status == 1);
  CHECK(ask("cuCtxRecordEvent", 12000, 0, &status) == nullptr);
  CHECK(status == 2);
  CHECK(ask("", 0, 0, &status) == nullptr);
  void* found = nullptr;
  const auto get = reinterpret_cast<Ask>(resolve("cuGetProcAddress_v2"));
  CHECK(get("cuMemAlloc", &found, 99000, 0, nullptr) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("an older driver lacks what it lacked", "[sim-resolve]") {
  reset({.context_events = false, .vmm = false});
  CHECK(resolve("cuCtxRecordEvent") == nullptr);
  CHECK(ask("cuCtxWaitEvent", 13000, 0) == nullptr);
  CHECK(resolve("cuMemMap") == nullptr);
  CHECK(resolve("cuMemAlloc_v2") != nullptr);
  CHECK_FALSE(make_driver().has_vmm());
}

TEST_CASE("every required driver call is there", "[sim-resolve]") {
  const Sim sim;
#define CHECK_MEMBER(need, member, symbol, params) CHECK(sim.driver().member != nullptr);
  CUSTASH_DRIVER_CALLS(CHECK_MEMBER)
#undef CHECK_MEMBER
  CHECK(sim.driver().now() == now());
}

TEST_CASE("the k-th call fails once, or from then on", "[sim-resolve]") {
  const Sim sim;
  CUdeviceptr p = 0;
  fail_call(2, CUDA_ERROR_UNKNOWN);
  CUcontext c = nullptr;
  CHECK(cuMemAlloc(&p, 1) == CUDA_SUCCESS);
  CHECK(cuCtxGetCurrent(&c) == CUDA_SUCCESS);  // cannot fail, is not counted
  CHECK(cuMemFree(p) == CUDA_ERROR_UNKNOWN);
  CHECK(failures_given() == 1);
  CHECK(cuMemFree(p) == CUDA_SUCCESS);  // the failed one did nothing
  fail_symbol("cuMemAlloc_v2", 2, CUDA_ERROR_OUT_OF_MEMORY, true);
  CHECK(cuMemAlloc(&p, 1) == CUDA_SUCCESS);
  CHECK(cuMemAlloc(&p, 1) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(cuMemAlloc(&p, 1) == CUDA_ERROR_OUT_OF_MEMORY);
  clear_failures();
  CHECK(cuMemAlloc(&p, 1) == CUDA_SUCCESS);
}

TEST_CASE("calls are logged with thread, result and modelled time", "[sim-resolve]") {
  const Sim sim;
  CHECK(cuMemFree(123) == CUDA_ERROR_INVALID_VALUE);
  std::thread([&] { CHECK(cuCtxSynchronize() == CUDA_ERROR_INVALID_CONTEXT); }).join();
  const std::vector<Call> log = calls();
  REQUIRE(log.size() == 2);
  CHECK(std::string(log[0].symbol) == "cuMemFree_v2");
  CHECK(log[0].result == CUDA_ERROR_INVALID_VALUE);
  CHECK(log[0].thread != log[1].thread);
  CHECK(count("cuMemFree_v2") == 1);
  CHECK(count_all() == 2);
  CHECK(driver_time() == log[0].nanoseconds + log[1].nanoseconds);
  CHECK(report().find("driver_time_ms: ") != std::string::npos);
  clear_log();
  CHECK(count_all() == 0);
}

TEST_CASE("the entry check runs before each call", "[sim-resolve]") {
  const Sim sim;
  static int checks;
  checks = 0;
  set_entry_check([] { ++checks; });
  CHECK(cuCtxSynchronize() == CUDA_SUCCESS);
  CHECK(launch(nullptr, {}) == CUDA_SUCCESS);
  set_entry_check(nullptr);
  CHECK(checks == 2);
}

TEST_CASE("before cuInit every call answers 3", "[sim-resolve]") {
  reset({.initialised = false});
  int n = 0;
  CHECK(cuDeviceGetCount(&n) == CUDA_ERROR_NOT_INITIALIZED);
  CHECK(cuDriverGetVersion(&n) == CUDA_SUCCESS);
  CHECK(n == 13000);
  CHECK(cuInit(0) == CUDA_SUCCESS);
  CHECK(cuDeviceGetCount(&n) == CUDA_SUCCESS);
  CHECK(n == 2);
}

TEST_CASE("a reset primary context keeps its handle, loses its memory and gets a new id",
          "[sim-resolve]") {
  const Sim sim;
  unsigned long long before = 0;
  unsigned long long after = 0;
  CHECK(cuCtxGetId(nullptr, &before) == CUDA_SUCCESS);
  const CUdeviceptr p = make_block(3 << 20);
  CHECK(cuDevicePrimaryCtxReset(0) == CUDA_SUCCESS);
  CHECK(used(0) == 0);
  CHECK(cuMemFree(p) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
  CUcontext again = nullptr;
  CHECK(cuDevicePrimaryCtxRetain(&again, 0) == CUDA_SUCCESS);
  CHECK(again == sim.context());
  CHECK(cuCtxGetId(nullptr, &after) == CUDA_SUCCESS);
  CHECK(before != after);
  CHECK(cuMemFree(p) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuDevicePrimaryCtxRelease(0) == CUDA_SUCCESS);  // two references: the reset took none
  int active = 0;
  CHECK(cuDevicePrimaryCtxGetState(0, nullptr, &active) == CUDA_SUCCESS);
  CHECK(active == 1);
  CHECK(cuDevicePrimaryCtxRelease(0) == CUDA_SUCCESS);
  CHECK(cuDevicePrimaryCtxGetState(0, nullptr, &active) == CUDA_SUCCESS);
  CHECK(active == 0);
}

TEST_CASE("a forked child has no driver", "[sim-resolve]") {
  const Sim sim;
  const pid_t child = fork();
  if (child == 0) _exit(cuCtxSynchronize() == CUDA_ERROR_NOT_INITIALIZED ? 0 : 1);
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(cuCtxSynchronize() == CUDA_SUCCESS);
}

TEST_CASE("created contexts come and go, and their handles are used again", "[sim-resolve]") {
  const Sim sim;
  const auto create =
      reinterpret_cast<CUresult (*)(CUcontext*, unsigned, CUdevice)>(resolve("cuCtxCreate_v2"));
  CUcontext c = nullptr;
  CUcontext d = nullptr;
  CHECK(create(&c, 0, 1) == CUDA_SUCCESS);
  CUdevice device = -1;
  CHECK(cuCtxGetDevice(&device) == CUDA_SUCCESS);
  CHECK(device == 1);
  CHECK(cuCtxDestroy(c) == CUDA_SUCCESS);
  CUcontext now_current = nullptr;
  CHECK(cuCtxGetCurrent(&now_current) == CUDA_SUCCESS);
  CHECK(now_current == sim.context());
  CHECK(create(&d, 0, 1) == CUDA_SUCCESS);
  CHECK(c == d);
}
