// SPDX-License-Identifier: MIT
// Fills (cuMemset…): asynchronous for the host in every form. And prefetches, which touch
// nothing.
#include "tests/sim/capture.hpp"
#include "tests/sim/lifetime.hpp"
#include "tests/sim/works.hpp"

#include <cstring>

namespace custash::sim {
namespace {

struct Fill {
  Address address = 0;
  Bytes pitch = 0;
  unsigned value = 0;
  Bytes element = 1;
  Bytes width = 0;  // elements in a row
  Bytes height = 1;
};

void write_rows(const Fill& fill) {
  for (Bytes y = 0; y < fill.height; ++y) {
    char* row = reinterpret_cast<char*>(fill.address + y * fill.pitch);
    if (fill.element == 1) {
      std::memset(row, static_cast<int>(fill.value), fill.width);
      continue;
    }
    for (Bytes x = 0; x < fill.width; ++x)
      std::memcpy(row + x * fill.element, &fill.value, fill.element);
  }
}

CUresult planned(World& w, const Context& by, const Fill& fill, Work* out) {
  const Bytes row = fill.width * fill.element;
  if (fill.address % fill.element != 0 || (fill.height > 1 && fill.pitch < row))
    return CUDA_ERROR_INVALID_VALUE;
  const CUDA_MEMSET_NODE_PARAMS answer{.dst = fill.address,
                                       .pitch = fill.pitch,
                                       .value = fill.value,
                                       .elementSize = static_cast<unsigned>(fill.element),
                                       .width = fill.width,
                                       .height = fill.height};
  Work work{.name = "fill",
            .type = CU_GRAPH_NODE_TYPE_MEMSET,
            .answer = std::make_shared<const NodeAnswer>(NodeAnswer{.fill = answer})};
  if (fill.height == 1 || fill.pitch == row)
    work.accesses.push_back({fill.address, row * fill.height, true});
  else
    for (Bytes y = 0; y < fill.height; ++y)
      work.accesses.push_back({fill.address + y * fill.pitch, row, true});
  for (const Touch& touch : translate_all(w, by, work))
    if (touch.memory == Memory::Unmapped || touch.memory == Memory::Pageable)
      return CUDA_ERROR_INVALID_VALUE;
  work.duration = fill_duration(row * fill.height);
  if (w.space.data()) work.body = [fill] { write_rows(fill); };
  *out = std::move(work);
  return CUDA_SUCCESS;
}

CUresult run_fill(Frame& f, Door door, CUstream stream, const Fill& fill, bool sync) {
  World& w = f.world;
  if (sync) {
    SIM_TRY(forbid_unsafe(w, f.thread));
  }
  Stream* s = find_stream(f, door, stream);
  if (s == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (fill.width == 0 || fill.height == 0) return CUDA_SUCCESS;
  Work work;
  SIM_TRY(planned(w, *f.context, fill, &work));
  const CUresult result = enqueue(f, *s, std::move(work));
  return result == CUDA_SUCCESS && sync && f.context->sync_memops()
             ? wait_stream(w, f.thread, *s)
             : result;
}

}  // namespace

CUresult fill_work(World& w,
                   const Context& by,
                   const CUDA_MEMSET_NODE_PARAMS& what,
                   Work* out) {
  const bool known = what.elementSize == 1 || what.elementSize == 2 || what.elementSize == 4;
  if (!known || what.width == 0 || what.height == 0) return CUDA_ERROR_INVALID_VALUE;
  const Fill fill{what.dst, what.pitch, what.value, what.elementSize, what.width, what.height};
  return planned(w, by, fill, out);
}

#define SIM_FILL(name, type, bytes)                                                     \
  SIM_DOORS(name##_v2, _ptds, (CUdeviceptr to, type value, size_t n), (to, value, n)) { \
    return SIM_DOOR(Context) {                                                          \
      return run_fill(f, door, nullptr, {to, 0, value, bytes, n, 1}, true);             \
    });                                                                                 \
  }                                                                                     \
  SIM_DOORS(name##Async,                                                                \
            _ptsz,                                                                      \
            (CUdeviceptr to, type value, size_t n, CUstream s),                         \
            (to, value, n, s)) {                                                        \
    return SIM_DOOR_ON(s) {                                                             \
      return run_fill(f, door, s, {to, 0, value, bytes, n, 1}, false);                  \
    });                                                                                 \
  }

#define SIM_FILL_2D(name, type, bytes)                                                     \
  SIM_DOORS(name##_v2,                                                                     \
            _ptds,                                                                         \
            (CUdeviceptr to, size_t pitch, type value, size_t width, size_t height),       \
            (to, pitch, value, width, height)) {                                           \
    return SIM_DOOR(Context) {                                                             \
      return run_fill(f, door, nullptr, {to, pitch, value, bytes, width, height}, true);   \
    });                                                                                    \
  }                                                                                        \
  SIM_DOORS(                                                                               \
      name##Async,                                                                         \
      _ptsz,                                                                               \
      (CUdeviceptr to, size_t pitch, type value, size_t width, size_t height, CUstream s), \
      (to, pitch, value, width, height, s)) {                                              \
    return SIM_DOOR_ON(s) {                                                                \
      return run_fill(f, door, s, {to, pitch, value, bytes, width, height}, false);        \
    });                                                                                    \
  }

SIM_FILL(cuMemsetD8, unsigned char, 1)
SIM_FILL(cuMemsetD16, unsigned short, 2)
SIM_FILL(cuMemsetD32, unsigned, 4)
SIM_FILL_2D(cuMemsetD2D8, unsigned char, 1)
SIM_FILL_2D(cuMemsetD2D16, unsigned short, 2)
SIM_FILL_2D(cuMemsetD2D32, unsigned, 4)

namespace {

CUresult prefetch(Frame& f, Door door, CUdeviceptr address, CUstream stream) {
  Stream* s = find_stream(f, door, stream);
  if (s == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const Region* region = region_at(f.world, address);
  if (region == nullptr || region->origin != Origin::Managed) return CUDA_ERROR_INVALID_VALUE;
  return enqueue(f, *s, {.name = "prefetch"});
}

}  // namespace

SIM_DOORS_IS(cuMemPrefetchAsync,
             Context,
             (CUdeviceptr address, size_t n, CUdevice device, CUstream s),
             prefetch(f, door, address, s))
SIM_DOORS_IS(cuMemPrefetchAsync_v2,
             Context,
             (CUdeviceptr address, size_t n, CUmemLocation where, unsigned flags, CUstream s),
             prefetch(f, door, address, s))

}  // namespace custash::sim
