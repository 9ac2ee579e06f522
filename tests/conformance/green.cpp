// SPDX-License-Identifier: MIT
// Green contexts: whose memory and events are had with one current, and what captures make of
// records. What the simulator takes of them from cuda.h is asked here.
#include "tests/conformance/cases.hpp"

namespace conformance {
namespace {

constexpr std::size_t kBytes = 3 * kMiB;

struct Green {
  Green() {
    alignas(16) unsigned char whole[1024] = {};
    alignas(16) unsigned char part[1024] = {};
    unsigned groups = 1;
    void* description = nullptr;
    CU(cuCtxGetCurrent, cuCtxGetCurrent)(&primary);
    call("cuDeviceGetDevResource", CUdevice{0}, static_cast<void*>(whole), 1);
    call("cuDevSmResourceSplitByCount",
         static_cast<void*>(part),
         &groups,
         static_cast<void*>(whole),
         static_cast<void*>(nullptr),
         0U,
         8U);
    call("cuDevResourceGenerateDesc", &description, static_cast<void*>(part), 1U);
    if (call("cuGreenCtxCreate", &handle, description, CUdevice{0}, 1U) != CUDA_SUCCESS) return;
    call("cuCtxFromGreenCtx", &context, handle);
    call("cuGreenCtxStreamCreate", &stream, handle, 1U, 0);
  }

  static CUresult use(CUcontext current) {
    return CU(cuCtxSetCurrent, cuCtxSetCurrent)(current);
  }

  CUresult end() {
    CU(cuStreamDestroy_v2, cuStreamDestroy)(stream);
    return call("cuGreenCtxDestroy", handle);
  }

  CUcontext primary = nullptr;
  CUcontext context = nullptr;
  void* handle = nullptr;
  CUstream stream = nullptr;
};

CUevent make_event() {
  CUevent event = nullptr;
  CU(cuEventCreate, cuEventCreate)(&event, static_cast<unsigned>(CU_EVENT_DISABLE_TIMING));
  return event;
}

}  // namespace

CASE(streams_green_memory_and_events) {
  cudaFree(nullptr);
  Green green;
  SAY(green.stream != nullptr);
  if (green.stream == nullptr) return;
  const Stream here;
  CUevent theirs = make_event();
  SAY(CU(cuEventRecord, cuEventRecord)(theirs, green.stream));
  SAY(Green::use(green.context));
  CUevent its = make_event();
  SAY(CU(cuEventRecord, cuEventRecord)(its, CUstream{here}));
  SAY(CU(cuEventRecord, cuEventRecord)(its, green.stream));
  SAY(call("cuGreenCtxRecordEvent", green.handle, theirs));
  SAY(call("cuGreenCtxWaitEvent", green.handle, its));
  CUdeviceptr p = 0;
  SAY(CU(cuMemAlloc_v2, cuMemAlloc)(&p, kBytes));
  SAY(CU(cuMemsetD8Async, cuMemsetD8Async)(
      p, static_cast<unsigned char>(7), kBytes, CUstream{here}));
  SAY(CU(cuMemsetD8Async, cuMemsetD8Async)(p, static_cast<unsigned char>(7), kBytes, nullptr));
  SAY(CU(cuCtxSynchronize, cuCtxSynchronize)());
  CUcontext owner = nullptr;
  SAY(CU(cuPointerGetAttribute, cuPointerGetAttribute)(
      static_cast<void*>(&owner), CU_POINTER_ATTRIBUTE_CONTEXT, p));
  SAY(owner == green.primary);
  SAY(Green::use(green.primary));
  SAY(green.end());
  SAY(CU(cuEventQuery, cuEventQuery)(its));
  SAY(wrong_words(pointer(p), kBytes, 0x07070707));
  SAY(CU(cuMemFree_v2, cuMemFree)(p));
}

CASE(streams_green_captures) {
  cudaFree(nullptr);
  Green green;
  SAY(green.stream != nullptr);
  if (green.stream == nullptr) return;
  const Stream here;
  CUevent event = make_event();
  const auto capture = [&](CUstream stream, auto between) {
    CUgraph graph = nullptr;
    SAY(CU(cuStreamBeginCapture_v2, cuStreamBeginCapture)(stream,
                                                          CU_STREAM_CAPTURE_MODE_RELAXED));
    between();
    SAY(CU(cuStreamEndCapture, cuStreamEndCapture)(stream, &graph));
    if (graph != nullptr) call("cuGraphDestroy", graph);
  };
  capture(green.stream, [&] { SAY(call("cuCtxRecordEvent", green.primary, event)); });
  capture(green.stream, [&] { SAY(call("cuGreenCtxRecordEvent", green.handle, event)); });
  capture(here, [&] { SAY(call("cuGreenCtxRecordEvent", green.handle, event)); });
  capture(here, [&] { SAY(call("cuCtxRecordEvent", green.primary, event)); });
  SAY(green.end());
}

}  // namespace conformance
