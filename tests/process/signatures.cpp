// SPDX-License-Identifier: MIT
// Compiled only: each wrapper has the shape of NVIDIA's function as this toolkit's cuda.h
// declares it (with the renaming macros off, every exported ABI is declared). entry_points.def
// writes void* for types that old toolkits lack, so any pointer passes for any other; an
// enumeration for an int.
#include "interpose/real/entry_points.hpp"

#include <type_traits>

#if CUDA_VERSION >= 13000

// What this toolkit does not declare yet, as the first one that does.
#define LATER(symbol, params) CUresult CUDAAPI symbol params;
#define LATER_PTSZ(symbol, params) LATER(symbol, params) LATER(symbol##_ptsz, params)
extern "C" {
#if CUDA_VERSION < 13010
LATER_PTSZ(cuLaunchHostFunc_v2, (CUstream, CUhostFn, void*, unsigned int))
#endif
#if CUDA_VERSION < 13020
LATER_PTSZ(cuMemcpyWithAttributesAsync,
           (CUdeviceptr, CUdeviceptr, size_t, CUmemcpyAttributes*, CUstream))
LATER_PTSZ(cuMemcpy3DWithAttributesAsync,
           (CUDA_MEMCPY3D_BATCH_OP*, unsigned long long, CUstream))
#endif
#if CUDA_VERSION < 13030
LATER(cuMulticastBindMem_v2,
      (CUmemGenericAllocationHandle,
       CUdevice,
       size_t,
       CUmemGenericAllocationHandle,
       size_t,
       size_t,
       unsigned long long))
LATER(cuMulticastBindAddr_v2,
      (CUmemGenericAllocationHandle, CUdevice, size_t, CUdeviceptr, size_t, unsigned long long))
LATER(cuLogicalEndpointBindMem,
      (cuuint32_t,
       CUdevice,
       cuuint64_t,
       CUmemGenericAllocationHandle,
       cuuint64_t,
       cuuint64_t,
       unsigned long long))
LATER(cuLogicalEndpointBindAddr,
      (cuuint32_t, CUdevice, cuuint64_t, void*, cuuint64_t, unsigned long long))
LATER_PTSZ(cuStreamBeginRecaptureToGraph,
           (CUstream, CUstreamCaptureMode, CUgraph, void (*)(), void*))
#endif
#if CUDA_VERSION < 13040
LATER(cuGraphAddNode_v3,
      (CUgraphNode*,
       CUgraph,
       const CUgraphNode*,
       const CUgraphEdgeData*,
       size_t,
       CUgraphNodeParams*))
LATER(cuGraphNodeSetParams_v2, (CUgraphNode, CUgraphNodeParams*))
#endif
#if CUDA_VERSION < 13050
LATER_PTSZ(cuFabricCpyBatchAsync, (size_t, void*, unsigned long long, CUstream))
#endif
}

namespace custash {
namespace {

template <typename T>
struct Shape {
  using type = std::conditional_t<std::is_pointer_v<T>, void*, T>;
};

template <typename T>
requires std::is_enum_v<T>

struct Shape<T> {
  using type = int;
};

template <typename Function>
struct Signature;

template <typename Result, typename... Params>
struct Signature<Result(Params...)> {
  using type = Result(typename Shape<Params>::type...);
};

template <typename Ours, typename Theirs>
constexpr bool kAlike =
    std::is_same_v<typename Signature<Ours>::type, typename Signature<Theirs>::type>;

#define CHECK_One(symbol, params) \
  static_assert(kAlike<CUresult params, decltype(::symbol)>, #symbol);
#define CHECK_Ptsz(symbol, params)                                                            \
  CHECK_One(symbol, params) static_assert(kAlike<CUresult params, decltype(::symbol##_ptsz)>, \
                                          #symbol "_ptsz");
#define CHECK_Ptds(symbol, params)                                                            \
  CHECK_One(symbol, params) static_assert(kAlike<CUresult params, decltype(::symbol##_ptds)>, \
                                          #symbol "_ptds");
#define ENTRY(symbol, forms, role, params) CHECK_##forms(symbol, params)
#include "interpose/real/entry_points.def"

}  // namespace
}  // namespace custash

#endif

int main() {
}
