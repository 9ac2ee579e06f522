// SPDX-License-Identifier: MIT
// Streams, events and host functions. Handles are the driver's own, NULL, 1 and 2 included.
#include "tests/sim/cudart/runtime.hpp"

using namespace custash::cudart;

CUDART_CALL(cudaStreamCreate, (cudaStream_t * stream), stream_create(stream, CU_STREAM_DEFAULT))
CUDART_CALL(cudaStreamCreateWithFlags,
            (cudaStream_t * stream, unsigned flags),
            stream_create(stream, flags))
CUDART_CALL(cudaStreamCreateWithPriority,
            (cudaStream_t * stream, unsigned flags, int priority),
            stream_create_with_priority(stream, flags, priority))
CUDART_CALL(cudaStreamDestroy, (cudaStream_t stream), stream_destroy(stream))
CUDART_CALL_BOTH(cudaStreamSynchronize,
                 _ptsz,
                 (cudaStream_t stream),
                 stream_synchronize(stream))
CUDART_CALL_BOTH(cudaStreamQuery, _ptsz, (cudaStream_t stream), stream_query(stream))
CUDART_CALL_BOTH(cudaStreamWaitEvent,
                 _ptsz,
                 (cudaStream_t stream, cudaEvent_t event, unsigned flags),
                 stream_wait_event(stream, event, flags))
CUDART_CALL_BOTH(cudaStreamGetFlags,
                 _ptsz,
                 (cudaStream_t stream, unsigned* flags),
                 stream_get_flags(stream, flags))
CUDART_CALL_BOTH(cudaStreamGetPriority,
                 _ptsz,
                 (cudaStream_t stream, int* priority),
                 stream_get_priority(stream, priority))
CUDART_CALL_BOTH(cudaStreamGetId,
                 _ptsz,
                 (cudaStream_t stream, unsigned long long* id),
                 stream_get_id(stream, id))
CUDART_CALL_BOTH(cudaStreamGetDevice,
                 _ptsz,
                 (cudaStream_t stream, int* device),
                 stream_get_device(stream, device))

// Both callback types take the stream, a code and the data; the codes agree.
CUDART_ENTRY_BOTH(
    cudaStreamAddCallback,
    _ptsz,
    (cudaStream_t stream, cudaStreamCallback_t callback, void* data, unsigned flags),
    {
      const auto given = reinterpret_cast<CUstreamCallback>(callback);
      return cu.stream_add_callback(stream, given, data, flags);
    })

CUDART_CALL_BOTH(cudaLaunchHostFunc,
                 _ptsz,
                 (cudaStream_t stream, cudaHostFn_t function, void* data),
                 launch_host_func(stream, function, data))
CUDART_CALL(cudaEventCreate, (cudaEvent_t * event), event_create(event, CU_EVENT_DEFAULT))
CUDART_CALL(cudaEventCreateWithFlags,
            (cudaEvent_t * event, unsigned flags),
            event_create(event, flags))
CUDART_CALL(cudaEventDestroy, (cudaEvent_t event), event_destroy(event))
CUDART_CALL_BOTH(cudaEventRecord,
                 _ptsz,
                 (cudaEvent_t event, cudaStream_t stream),
                 event_record(event, stream))
CUDART_CALL_BOTH(cudaEventRecordWithFlags,
                 _ptsz,
                 (cudaEvent_t event, cudaStream_t stream, unsigned flags),
                 event_record_with_flags(event, stream, flags))
CUDART_CALL(cudaEventQuery, (cudaEvent_t event), event_query(event))
CUDART_CALL(cudaEventSynchronize, (cudaEvent_t event), event_synchronize(event))
CUDART_CALL(cudaEventElapsedTime,
            (float* milliseconds, cudaEvent_t start, cudaEvent_t end),
            event_elapsed_time(milliseconds, start, end))
