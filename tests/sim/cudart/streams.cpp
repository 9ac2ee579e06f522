// SPDX-License-Identifier: MIT
// Streams, events and host functions. Handles are the driver's own, NULL, 1 and 2 included.
#include "tests/sim/cudart/runtime.hpp"

using namespace custash::cudart;

CUDART_ENTRY(cudaStreamCreate, (cudaStream_t * stream), {
  return cu.stream_create(stream, CU_STREAM_DEFAULT);
})

CUDART_ENTRY(cudaStreamCreateWithFlags, (cudaStream_t * stream, unsigned flags), {
  return cu.stream_create(stream, flags);
})

CUDART_ENTRY(cudaStreamCreateWithPriority,
             (cudaStream_t * stream, unsigned flags, int priority),
             { return cu.stream_create_with_priority(stream, flags, priority); })

CUDART_ENTRY(cudaStreamDestroy, (cudaStream_t stream), { return cu.stream_destroy(stream); })

CUDART_ENTRY_BOTH(cudaStreamSynchronize, _ptsz, (cudaStream_t stream), {
  return cu.stream_synchronize(stream);
})

CUDART_ENTRY_BOTH(cudaStreamQuery, _ptsz, (cudaStream_t stream), {
  return cu.stream_query(stream);
})

CUDART_ENTRY_BOTH(cudaStreamWaitEvent,
                  _ptsz,
                  (cudaStream_t stream, cudaEvent_t event, unsigned flags),
                  { return cu.stream_wait_event(stream, event, flags); })

CUDART_ENTRY_BOTH(cudaStreamGetFlags, _ptsz, (cudaStream_t stream, unsigned* flags), {
  return cu.stream_get_flags(stream, flags);
})

CUDART_ENTRY_BOTH(cudaStreamGetPriority, _ptsz, (cudaStream_t stream, int* priority), {
  return cu.stream_get_priority(stream, priority);
})

CUDART_ENTRY_BOTH(cudaStreamGetId, _ptsz, (cudaStream_t stream, unsigned long long* id), {
  return cu.stream_get_id(stream, id);
})

CUDART_ENTRY_BOTH(cudaStreamGetDevice, _ptsz, (cudaStream_t stream, int* device), {
  return cu.stream_get_device(stream, device);
})

// Both callback types take the stream, a code and the data; the codes agree.
CUDART_ENTRY_BOTH(
    cudaStreamAddCallback,
    _ptsz,
    (cudaStream_t stream, cudaStreamCallback_t callback, void* data, unsigned flags),
    {
      const auto given = reinterpret_cast<CUstreamCallback>(callback);
      return cu.stream_add_callback(stream, given, data, flags);
    })

CUDART_ENTRY_BOTH(cudaLaunchHostFunc,
                  _ptsz,
                  (cudaStream_t stream, cudaHostFn_t function, void* data),
                  { return cu.launch_host_func(stream, function, data); })

CUDART_ENTRY(cudaEventCreate, (cudaEvent_t * event), {
  return cu.event_create(event, CU_EVENT_DEFAULT);
})

CUDART_ENTRY(cudaEventCreateWithFlags, (cudaEvent_t * event, unsigned flags), {
  return cu.event_create(event, flags);
})

CUDART_ENTRY(cudaEventDestroy, (cudaEvent_t event), { return cu.event_destroy(event); })

CUDART_ENTRY_BOTH(cudaEventRecord, _ptsz, (cudaEvent_t event, cudaStream_t stream), {
  return cu.event_record(event, stream);
})

CUDART_ENTRY_BOTH(cudaEventRecordWithFlags,
                  _ptsz,
                  (cudaEvent_t event, cudaStream_t stream, unsigned flags),
                  { return cu.event_record_with_flags(event, stream, flags); })

CUDART_ENTRY(cudaEventQuery, (cudaEvent_t event), { return cu.event_query(event); })

CUDART_ENTRY(cudaEventSynchronize, (cudaEvent_t event), { return cu.event_synchronize(event); })

CUDART_ENTRY(cudaEventElapsedTime, (float* milliseconds, cudaEvent_t start, cudaEvent_t end), {
  return cu.event_elapsed_time(milliseconds, start, end);
})

CUDART_ENTRY(cudaIpcGetEventHandle, (cudaIpcEventHandle_t * handle, cudaEvent_t event), {
  return cu.ipc_get_event_handle(reinterpret_cast<CUipcEventHandle*>(handle), event);
})

CUDART_ENTRY(cudaIpcOpenEventHandle, (cudaEvent_t * event, cudaIpcEventHandle_t handle), {
  return cu.ipc_open_event_handle(event, reinterpret_cast<const CUipcEventHandle&>(handle));
})
