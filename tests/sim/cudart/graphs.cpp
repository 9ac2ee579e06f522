// SPDX-License-Identifier: MIT
// Stream capture and graphs as captures make them. Nodes are not built by hand here.
#include "tests/sim/cudart/runtime.hpp"

using namespace custash::cudart;

CUDART_CALL_BOTH(cudaStreamBeginCapture,
                 _ptsz,
                 (cudaStream_t stream, enum cudaStreamCaptureMode mode),
                 stream_begin_capture(stream, static_cast<CUstreamCaptureMode>(mode)))
CUDART_CALL_BOTH(cudaStreamEndCapture,
                 _ptsz,
                 (cudaStream_t stream, cudaGraph_t* graph),
                 stream_end_capture(stream, graph))
CUDART_CALL_BOTH(cudaStreamIsCapturing,
                 _ptsz,
                 (cudaStream_t stream, enum cudaStreamCaptureStatus* status),
                 stream_is_capturing(stream, reinterpret_cast<CUstreamCaptureStatus*>(status)))
CUDART_CALL(cudaThreadExchangeStreamCaptureMode,
            (enum cudaStreamCaptureMode * mode),
            exchange_capture_mode(reinterpret_cast<CUstreamCaptureMode*>(mode)))
CUDART_CALL(cudaGraphCreate, (cudaGraph_t * graph, unsigned flags), graph_create(graph, flags))
CUDART_CALL(cudaGraphClone, (cudaGraph_t * clone, cudaGraph_t graph), graph_clone(clone, graph))
CUDART_CALL(cudaGraphDestroy, (cudaGraph_t graph), graph_destroy(graph))
CUDART_CALL(cudaGraphGetNodes,
            (cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count),
            graph_get_nodes(graph, nodes, count))

#if CUDART_VERSION >= 12000
CUDART_CALL(cudaGraphInstantiate,
            (cudaGraphExec_t * executable, cudaGraph_t graph, unsigned long long flags),
            graph_instantiate(executable, graph, flags))
#else
CUDART_ENTRY(cudaGraphInstantiate,
             (cudaGraphExec_t * executable,
              cudaGraph_t graph,
              cudaGraphNode_t* culprit,
              char* text,
              size_t text_bytes),
             {
               if (culprit != nullptr) *culprit = nullptr;
               if (text != nullptr && text_bytes > 0) *text = '\0';
               return cu.graph_instantiate(executable, graph, 0);
             })
#endif

CUDART_CALL(cudaGraphInstantiateWithFlags,
            (cudaGraphExec_t * executable, cudaGraph_t graph, unsigned long long flags),
            graph_instantiate(executable, graph, flags))
CUDART_CALL_BOTH(cudaGraphUpload,
                 _ptsz,
                 (cudaGraphExec_t executable, cudaStream_t stream),
                 graph_upload(executable, stream))
CUDART_CALL_BOTH(cudaGraphLaunch,
                 _ptsz,
                 (cudaGraphExec_t executable, cudaStream_t stream),
                 graph_launch(executable, stream))
CUDART_CALL(cudaGraphExecDestroy, (cudaGraphExec_t executable), graph_exec_destroy(executable))
