// SPDX-License-Identifier: MIT
// Copies. Pageable sources are read at the call (the driver stages them); copies to pageable
// memory are waited for; all else is asynchronous, and in data mode moves its bytes when it
// runs.
#include "tests/sim/capture.hpp"
#include "tests/sim/lifetime.hpp"
#include "tests/sim/works.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <type_traits>

namespace custash::sim {
namespace {

// Rows of `width` bytes; planes of `height` rows.
struct Shape {
  Bytes width = 0;
  Bytes height = 1;
  Bytes depth = 1;
};

struct End {
  Address address = 0;
  Bytes pitch = 0;
  Bytes plane = 0;

  Address row(Bytes y, Bytes z) const { return address + z * plane + y * pitch; }
};

struct Plan {
  End to;
  End from;
  Shape shape;
};

enum class Wait { ForHostMemory, Always, Never };

bool pageable(World& w, Address address) {
  return region_at(w, address) == nullptr && !w.space.owns(address);
}

bool is_mapped(World& w, Address address) {
  const Region* region = region_at(w, address);
  return region != nullptr && region->origin == Origin::Vmm;
}

bool on_device(World& w, Address address) {
  const Region* region = region_at(w, address);
  return region != nullptr ? region->origin != Origin::Host : w.space.owns(address);
}

template <typename Visit>
void each_row(const Shape& shape, Visit&& visit) {
  for (Bytes z = 0; z < shape.depth; ++z)
    for (Bytes y = 0; y < shape.height; ++y)
      visit(y, z);
}

void add_accesses(const End& end, const Shape& shape, bool write, std::vector<Access>& out) {
  if (shape.depth == 1 && (shape.height == 1 || end.pitch == shape.width)) {
    out.push_back({end.address, shape.width * shape.height, write});
    return;
  }
  each_row(shape, [&](Bytes y, Bytes z) {
    out.push_back({end.row(y, z), shape.width, write});
  });
}

// The source's bytes as they are now.
std::shared_ptr<std::vector<char>> stage(const Plan& plan) {
  auto bytes = std::make_shared<std::vector<char>>();
  bytes->reserve(plan.shape.width * plan.shape.height * plan.shape.depth);
  each_row(plan.shape, [&](Bytes y, Bytes z) {
    const char* row = reinterpret_cast<const char*>(plan.from.row(y, z));
    bytes->insert(bytes->end(), row, row + plan.shape.width);
  });
  return bytes;
}

void move_bytes(const Plan& plan, const std::vector<char>* staged) {
  Bytes offset = 0;
  each_row(plan.shape, [&](Bytes y, Bytes z) {
    const void* from = staged != nullptr ? staged->data() + offset
                                         : reinterpret_cast<const char*>(plan.from.row(y, z));
    std::memmove(reinterpret_cast<void*>(plan.to.row(y, z)), from, plan.shape.width);
    offset += plan.shape.width;
  });
}

NodeAnswer answer_of(World& w, const Plan& plan) {
  CUDA_MEMCPY3D copy{};
  if (on_device(w, plan.from.address)) {
    copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = plan.from.address;
  } else {
    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = reinterpret_cast<const void*>(plan.from.address);
  }
  if (on_device(w, plan.to.address)) {
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.dstDevice = plan.to.address;
  } else {
    copy.dstMemoryType = CU_MEMORYTYPE_HOST;
    copy.dstHost = reinterpret_cast<void*>(plan.to.address);
  }
  copy.srcPitch = plan.from.pitch;
  copy.srcHeight = plan.from.pitch == 0 ? 0 : plan.from.plane / plan.from.pitch;
  copy.dstPitch = plan.to.pitch;
  copy.dstHeight = plan.to.pitch == 0 ? 0 : plan.to.plane / plan.to.pitch;
  copy.WidthInBytes = plan.shape.width;
  copy.Height = plan.shape.height;
  copy.Depth = plan.shape.depth;
  return {.copy = copy};
}

// What the copy does, by that context. Staged: what it copies is read now.
CUresult planned(World& w, const Context& by, const Plan& plan, bool staged, Work* out) {
  Work work{.name = "copy",
            .type = CU_GRAPH_NODE_TYPE_MEMCPY,
            .answer = std::make_shared<const NodeAnswer>(answer_of(w, plan))};
  add_accesses(plan.to, plan.shape, true, work.accesses);
  if (!staged) add_accesses(plan.from, plan.shape, false, work.accesses);
  for (const Touch& touch : translate_all(w, by, work))
    if (touch.memory == Memory::Unmapped) return CUDA_ERROR_INVALID_VALUE;
  const bool inside = on_device(w, plan.from.address) && on_device(w, plan.to.address);
  const bool over_host = pageable(w, plan.from.address) || pageable(w, plan.to.address);
  const CopyPath over_bus = over_host ? CopyPath::Staged : CopyPath::Bus;
  const Bytes bytes = plan.shape.width * plan.shape.height * plan.shape.depth;
  work.duration = copy_duration(bytes, inside ? CopyPath::Device : over_bus);
  if (w.space.data()) {
    const auto kept = staged ? stage(plan) : nullptr;
    work.body = [plan, kept] { move_bytes(plan, kept.get()); };
  }
  *out = std::move(work);
  return CUDA_SUCCESS;
}

// Where the devices have no access to each other, a free of the other's memory waits for the
// copy, and nothing else of that device does (checked on two H200s by
// tests/gpu/holes_peers.cu).
void note_guest(World& w, const Context& by, Address end, OpId op) {
  const Region* region = region_at(w, end);
  Context* owner = region == nullptr ? nullptr : context_by_id(w, region->context_id);
  if (owner == nullptr || owner->device == by.device || by.home->peers.count(owner->id) != 0)
    return;
  std::erase_if(owner->guests, [&](OpId old) { return is_done(w, old); });
  owner->guests.push_back(op);
}

CUresult run_copy(Frame& f, Door door, CUstream stream, const Plan& plan, Wait wait) {
  World& w = f.world;
  if (wait == Wait::Always || wait == Wait::Never) {
    SIM_TRY(forbid_unsafe(w, f.thread));
  }
  Stream* s = find_stream(f, door, stream);
  if (s == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const Bytes bytes = plan.shape.width * plan.shape.height * plan.shape.depth;
  if (bytes == 0) return CUDA_SUCCESS;
  if (plan.to.address == 0 || plan.from.address == 0) return CUDA_ERROR_INVALID_VALUE;
  const bool to_pageable = pageable(w, plan.to.address);
  const bool staged = pageable(w, plan.from.address) && s->capture == nullptr;
  Work work;
  SIM_TRY(planned(w, *f.context, plan, staged, &work));
  OpId op = 0;
  const CUresult result = enqueue(f, *s, std::move(work), &op);
  if (result != CUDA_SUCCESS || op == 0) return result;
  for (const Address end : {plan.to.address, plan.from.address})
    note_guest(w, *f.context, end, op);
  if (wait == Wait::Always || (wait == Wait::ForHostMemory && to_pageable))
    return wait_stream(w, f.thread, *s);
  return CUDA_SUCCESS;
}

Plan line(Address to, Address from, Bytes bytes) {
  return {{to}, {from}, {bytes}};
}

// A plain cuMemcpy waits unless both ends are on a device and the context does not ask for it.
CUresult synchronous(Frame& f, Door door, Address to, Address from, Bytes bytes) {
  const bool inside = on_device(f.world, to) && on_device(f.world, from);
  return run_copy(f,
                  door,
                  nullptr,
                  line(to, from, bytes),
                  inside && !f.context->sync_memops() ? Wait::Never : Wait::Always);
}

Address end_address(CUmemorytype type, const void* host, CUdeviceptr device) {
  return type == CU_MEMORYTYPE_HOST ? reinterpret_cast<Address>(host) : device;
}

bool usable(CUmemorytype type) {
  return type != CU_MEMORYTYPE_ARRAY;
}

// Where an end is an array: the same copy with the array's memory in its place.
template <typename Copy>
CUresult without_arrays(World& w, Copy* copy) {
  Array array;
  if (copy->srcMemoryType == CU_MEMORYTYPE_ARRAY) {
    if (!find_array(w, copy->srcArray, &array)) return CUDA_ERROR_INVALID_HANDLE;
    copy->srcMemoryType = CU_MEMORYTYPE_DEVICE;
    copy->srcDevice = array.address;
    copy->srcPitch = array.pitch;
    if constexpr (std::is_same_v<Copy, CUDA_MEMCPY3D>) copy->srcHeight = array.height;
  }
  if (copy->dstMemoryType == CU_MEMORYTYPE_ARRAY) {
    if (!find_array(w, copy->dstArray, &array)) return CUDA_ERROR_INVALID_HANDLE;
    copy->dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy->dstDevice = array.address;
    copy->dstPitch = array.pitch;
    if constexpr (std::is_same_v<Copy, CUDA_MEMCPY3D>) copy->dstHeight = array.height;
  }
  return CUDA_SUCCESS;
}

CUresult plan_2d(const CUDA_MEMCPY2D* c, Plan* plan) {
  if (c == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!usable(c->srcMemoryType) || !usable(c->dstMemoryType)) return CUDA_ERROR_NOT_SUPPORTED;
  const Bytes from_pitch = c->srcPitch != 0 ? c->srcPitch : c->WidthInBytes;
  const Bytes to_pitch = c->dstPitch != 0 ? c->dstPitch : c->WidthInBytes;
  if (c->WidthInBytes > from_pitch || c->WidthInBytes > to_pitch)
    return CUDA_ERROR_INVALID_VALUE;
  plan->shape = {c->WidthInBytes, c->Height, 1};
  plan->from = {end_address(c->srcMemoryType, c->srcHost, c->srcDevice) + c->srcY * from_pitch +
                    c->srcXInBytes,
                from_pitch,
                0};
  plan->to = {end_address(c->dstMemoryType, c->dstHost, c->dstDevice) + c->dstY * to_pitch +
                  c->dstXInBytes,
              to_pitch,
              0};
  return CUDA_SUCCESS;
}

CUresult plan_3d(const CUDA_MEMCPY3D* c, Plan* plan) {
  if (c == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!usable(c->srcMemoryType) || !usable(c->dstMemoryType)) return CUDA_ERROR_NOT_SUPPORTED;
  const Bytes from_pitch = c->srcPitch != 0 ? c->srcPitch : c->WidthInBytes;
  const Bytes to_pitch = c->dstPitch != 0 ? c->dstPitch : c->WidthInBytes;
  if (c->WidthInBytes + c->srcXInBytes > from_pitch ||
      c->WidthInBytes + c->dstXInBytes > to_pitch)
    return CUDA_ERROR_INVALID_VALUE;
  const Bytes from_plane = from_pitch * (c->srcHeight != 0 ? c->srcHeight : c->Height);
  const Bytes to_plane = to_pitch * (c->dstHeight != 0 ? c->dstHeight : c->Height);
  plan->shape = {c->WidthInBytes, c->Height, c->Depth};
  plan->from = {end_address(c->srcMemoryType, c->srcHost, c->srcDevice) + c->srcZ * from_plane +
                    c->srcY * from_pitch + c->srcXInBytes,
                from_pitch,
                from_plane};
  plan->to = {end_address(c->dstMemoryType, c->dstHost, c->dstDevice) + c->dstZ * to_plane +
                  c->dstY * to_pitch + c->dstXInBytes,
              to_pitch,
              to_plane};
  return CUDA_SUCCESS;
}

template <typename Params>
CUresult run_shaped(Frame& f,
                    Door door,
                    CUstream stream,
                    const Params* params,
                    CUresult (*make)(const Params*, Plan*),
                    bool sync) {
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Plan plan;
  Params plain = *params;
  CUresult bad = without_arrays(f.world, &plain);
  if (bad == CUDA_SUCCESS) bad = make(&plain, &plan);
  if (bad != CUDA_SUCCESS) return bad;
  const bool inside =
      on_device(f.world, plan.to.address) && on_device(f.world, plan.from.address);
  Wait wait = Wait::ForHostMemory;
  if (sync) wait = inside ? Wait::Never : Wait::Always;
  return run_copy(f, door, stream, plan, wait);
}

Address place(const void* host) {
  return reinterpret_cast<Address>(host);
}

Address place(CUdeviceptr device) {
  return device;
}

}  // namespace

CUresult copy_work(World& w, const Context& by, const CUDA_MEMCPY3D* what, Work* out) {
  Plan plan;
  const CUresult bad = plan_3d(what, &plan);
  return bad != CUDA_SUCCESS ? bad : planned(w, by, plan, false, out);
}

#define SIM_COPY(name, To, From)                                        \
  SIM_DOORS(name, _ptds, (To to, From from, size_t n), (to, from, n)) { \
    return SIM_DOOR(Context) {                                          \
      return synchronous(f, door, place(to), place(from), n);           \
    });                                                                 \
  }
#define SIM_COPY_ASYNC(name, To, From)                                                   \
  SIM_DOORS(name, _ptsz, (To to, From from, size_t n, CUstream s), (to, from, n, s)) {   \
    return SIM_DOOR_ON(s) {                                                              \
      return run_copy(f, door, s, line(place(to), place(from), n), Wait::ForHostMemory); \
    });                                                                                  \
  }
#define SIM_SHAPED(name, Params, plan)                         \
  SIM_DOORS(name, _ptds, (const Params* params), (params)) {   \
    return SIM_DOOR(Context) {                                 \
      return run_shaped(f, door, nullptr, params, plan, true); \
    });                                                        \
  }
#define SIM_SHAPED_ASYNC(name, Params, plan)                                \
  SIM_DOORS(name, _ptsz, (const Params* params, CUstream s), (params, s)) { \
    return SIM_DOOR_ON(s) {                                                 \
      return run_shaped(f, door, s, params, plan, false);                   \
    });                                                                     \
  }

SIM_COPY(cuMemcpy, CUdeviceptr, CUdeviceptr)
SIM_COPY(cuMemcpyHtoD_v2, CUdeviceptr, const void*)
SIM_COPY(cuMemcpyDtoH_v2, void*, CUdeviceptr)
SIM_COPY(cuMemcpyDtoD_v2, CUdeviceptr, CUdeviceptr)
SIM_COPY_ASYNC(cuMemcpyAsync, CUdeviceptr, CUdeviceptr)
SIM_COPY_ASYNC(cuMemcpyHtoDAsync_v2, CUdeviceptr, const void*)
SIM_COPY_ASYNC(cuMemcpyDtoHAsync_v2, void*, CUdeviceptr)
SIM_SHAPED(cuMemcpy2D_v2, CUDA_MEMCPY2D, plan_2d)
SIM_SHAPED(cuMemcpy2DUnaligned_v2, CUDA_MEMCPY2D, plan_2d)
SIM_SHAPED(cuMemcpy3D_v2, CUDA_MEMCPY3D, plan_3d)
SIM_SHAPED_ASYNC(cuMemcpy2DAsync_v2, CUDA_MEMCPY2D, plan_2d)
SIM_SHAPED_ASYNC(cuMemcpy3DAsync_v2, CUDA_MEMCPY3D, plan_3d)

SIM_DOORS(
    cuMemcpyPeer,
    _ptds,
    (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t n),
    (to, to_context, from, from_context, n)) {
  return SIM_DOOR(Context) {
    return synchronous(f, door, to, from, n);
  });
}

SIM_DOORS(cuMemcpyDtoDAsync_v2,
          _ptsz,
          (CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s),
          (to, from, n, s)) {
  return SIM_DOOR_ON(s) {
    // Seen with driver 580, and of mapped memory and this call alone.
    if (f.of_stream && (is_mapped(f.world, to) || is_mapped(f.world, from)))
      return CUDA_ERROR_INVALID_VALUE;
    return run_copy(f, door, s, line(to, from, n), Wait::ForHostMemory);
  });
}

SIM_ON_STREAM(cuMemcpyPeerAsync,
              s,
              (CUdeviceptr to,
               CUcontext to_context,
               CUdeviceptr from,
               CUcontext from_context,
               size_t n,
               CUstream s),
              run_copy(f, door, s, line(to, from, n), Wait::ForHostMemory))

}  // namespace custash::sim
