// SPDX-License-Identifier: MIT
// cuInit, the names of errors, and the fixture for tests.
#include "tests/sim/lifetime.hpp"
#include "tests/sim/process.hpp"

#include <cstdlib>

namespace custash::sim {

void (*after_init)() = nullptr;

void set_deinitialised() {
  const Guard guard;
  guard->deinitialised = true;
}

SIM_ENTRY(cuInit, (unsigned flags)) {
  bool first = false;
  const CUresult result = SIM_CALL(cuInit, Nothing) {
    if (f.world.deinitialised) return CUDA_ERROR_DEINITIALIZED;
    if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
    if (f.world.options.devices == 0) return CUDA_ERROR_NO_DEVICE;
    first = !f.world.initialised;
    f.world.initialised = true;
    return CUDA_SUCCESS;
  });
  if (first && after_init != nullptr) after_init();
  return result;
}

namespace {

struct ErrorText {
  int code;
  const char* name;
  const char* text;
};

constexpr ErrorText kErrors[] = {
    {0, "CUDA_SUCCESS", "no error"},
    {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {4, "CUDA_ERROR_DEINITIALIZED", "driver shutting down"},
    {34, "CUDA_ERROR_STUB_LIBRARY", "CUDA driver is a stub library"},
    {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {200, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {217,
     "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED",
     "peer access is not supported between these two devices"},
    {400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {401, "CUDA_ERROR_ILLEGAL_STATE", "the operation cannot be performed in the present state"},
    {500, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {600, "CUDA_ERROR_NOT_READY", "device not ready"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {702, "CUDA_ERROR_LAUNCH_TIMEOUT", "the launch timed out and was terminated"},
    {704, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "peer access is already enabled"},
    {705, "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED", "peer access has not been enabled"},
    {709, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"},
    {712,
     "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
     "part or all of the requested memory range is already mapped"},
    {713,
     "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
     "pointer does not correspond to a registered memory region"},
    {719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {800, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
    {801, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {900,
     "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
    {901,
     "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "operation failed due to a previous error during capture"},
    {902,
     "CUDA_ERROR_STREAM_CAPTURE_MERGE",
     "operation would result in a merge of separate capture sequences"},
    {903,
     "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",
     "capture was not ended in the same stream as it began"},
    {904, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "capturing stream has unjoined work"},
    {905,
     "CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
     "dependency created on uncaptured work in another stream"},
    {906,
     "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
     "operation would make the legacy stream depend on a capturing blocking stream"},
    {907,
     "CUDA_ERROR_CAPTURED_EVENT",
     "operation not permitted on an event last recorded in a capturing stream"},
    {908,
     "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD",
     "attempt to terminate a thread-local capture sequence from another thread"},
    {999, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

const ErrorText* find(int code) {
  for (const ErrorText& error : kErrors)
    if (error.code == code) return &error;
  return nullptr;
}

}  // namespace

SIM_ENTRY(cuGetErrorName, (CUresult code, const char** out)) {
  const ErrorText* error = find(code);
  if (out != nullptr) *out = error == nullptr ? nullptr : error->name;
  return error == nullptr || out == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

SIM_ENTRY(cuGetErrorString, (CUresult code, const char** out)) {
  const ErrorText* error = find(code);
  if (out != nullptr) *out = error == nullptr ? nullptr : error->text;
  return error == nullptr || out == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

Sim::Sim(const Options& options) {
  reset(options);
  driver_ = make_driver();
  // Not through the entries: the fixture's own calls shall not be counted.
  const Guard guard;
  guard->devices[0].primary_references = 1;
  context_ = make_context(*guard, 0, true, 0);
  thread_state(*guard).stack.push_back(context_);
}

Sim::~Sim() {
  reset({});
}

}  // namespace custash::sim
