// SPDX-License-Identifier: MIT
// Kernel launches: those that a test describes itself (sim.hpp's launch), and the driver's
// entries, whose kernels are found by name.
#include "tests/sim/capture.hpp"
#include "tests/sim/kernels.hpp"
#include "tests/sim/works.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <memory>

namespace custash::sim {
namespace {

CUresult launch_through(Door door, CUstream stream, Kernel& kernel) {
  return call_on(door, stream, [&](Frame& f) -> CUresult {
    Stream* s = find_stream(f, door, stream);
    if (s == nullptr || s->context->home != f.context->home) return CUDA_ERROR_INVALID_HANDLE;
    return enqueue(f, *s, described_work(f.world, std::move(kernel)));
  });
}

// A launch with its arguments copied, as kernel_abi.h promises them to the body.
struct Arguments {
  std::vector<std::vector<unsigned char>> values;
  std::vector<void*> pointers;
  custash_sim_launch launch{};
  NodeAnswer answer;
};

// The packed buffer of cuLaunchKernel's `extra`, or null.
const unsigned char* packed(void** extra) {
  for (; extra != nullptr && *extra != CU_LAUNCH_PARAM_END; extra += 2)
    if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
      return static_cast<const unsigned char*>(extra[1]);
  return nullptr;
}

std::shared_ptr<Arguments> copy_arguments(const KernelInfo& info, void** params, void** extra) {
  auto args = std::make_shared<Arguments>();
  if (info.body == nullptr || info.body->arg_sizes == nullptr) return args;
  const unsigned char* buffer = packed(extra);
  Bytes offset = 0;
  for (std::size_t i = 0; info.body->arg_sizes[i] != 0; ++i) {
    const std::size_t size = info.body->arg_sizes[i];
    const unsigned char* from =
        params != nullptr ? static_cast<const unsigned char*>(params[i]) : nullptr;
    if (from == nullptr && buffer != nullptr) {
      offset = align_up(offset, alignment_of_argument(size));
      from = buffer + offset;
      offset += size;
    }
    if (from == nullptr) return args;
    args->values.emplace_back(from, from + size);
  }
  for (auto& value : args->values)
    args->pointers.push_back(value.data());
  args->launch.args = args->pointers.data();
  return args;
}

std::vector<Access> accesses_of(const custash_sim_kernel& kernel, const Arguments& args) {
  if (kernel.accesses == nullptr) return {};
  std::vector<custash_sim_access> room(8);
  const std::size_t count = kernel.accesses(&args.launch, room.data(), room.size());
  if (count > room.size()) {
    room.resize(count);
    kernel.accesses(&args.launch, room.data(), count);
  }
  std::vector<Access> accesses;
  for (std::size_t i = 0; i < count; ++i)
    accesses.push_back({room[i].address, room[i].bytes, room[i].write != 0});
  return accesses;
}

}  // namespace

Work described_work(const World& w, Kernel kernel) {
  Work work;
  work.name = std::move(kernel.name);
  work.accesses = std::move(kernel.accesses);
  work.kernel = true;
  work.early = kernel.early;
  work.duration = kernel.duration == 0 ? w.options.default_kernel : kernel.duration;
  if (kernel.needs_flag != 0) work.needs.push_back(kernel.needs_flag);
  if (kernel.sets_flag != 0) work.sets.push_back(kernel.sets_flag);
  work.body = std::move(kernel.body);
  return work;
}

CUresult kernel_work(const Frame& f,
                     CUfunction fn,
                     const LaunchShape& shape,
                     void** params,
                     void** extra,
                     Work* out) {
  const KernelInfo* info = f.world.kernels.get(fn);
  if (info == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  for (int i = 0; i < 3; ++i)
    if (shape.grid[i] == 0 || shape.block[i] == 0) return CUDA_ERROR_INVALID_VALUE;
  if (std::uint64_t{shape.block[0]} * shape.block[1] * shape.block[2] > 1024)
    return CUDA_ERROR_INVALID_VALUE;
  const auto args = copy_arguments(*info, params, extra);
  std::memcpy(args->launch.grid, shape.grid, sizeof shape.grid);
  std::memcpy(args->launch.block, shape.block, sizeof shape.block);
  args->answer.kernel = {.func = fn,
                         .gridDimX = shape.grid[0],
                         .gridDimY = shape.grid[1],
                         .gridDimZ = shape.grid[2],
                         .blockDimX = shape.block[0],
                         .blockDimY = shape.block[1],
                         .blockDimZ = shape.block[2],
                         .kernelParams = args->pointers.data()};
  Work work{.name = info->name,
            .answer = {args, &args->answer},
            .kernel = true,
            .duration = f.world.options.default_kernel};
  if (info->body != nullptr && info->body->nanoseconds != nullptr)
    work.duration = info->body->nanoseconds(&args->launch);
  if (info->body != nullptr && info->body->body != nullptr && f.world.space.data())
    work.body = [args, body = info->body->body] { body(&args->launch); };
  if (info->body != nullptr) work.accesses = accesses_of(*info->body, *args);
  *out = std::move(work);
  return CUDA_SUCCESS;
}

namespace {

CUresult launch_function(Door door,
                         CUfunction fn,
                         const LaunchShape& shape,
                         CUstream stream,
                         void** params,
                         void** extra,
                         bool early = false) {
  return call_on(door, stream, [&](Frame& f) -> CUresult {
    Stream* s = find_stream(f, door, stream);
    if (s == nullptr || s->context->home != f.context->home) return CUDA_ERROR_INVALID_HANDLE;
    Work work;
    SIM_TRY(kernel_work(f, fn, shape, params, extra, &work));
    work.early = early;
    OpId op = 0;
    const CUresult result = enqueue(f, *s, std::move(work), &op);
    // CUDA_LAUNCH_BLOCKING: the launch answers what its wait would.
    if (result != CUDA_SUCCESS || op == 0 || !f.world.options.blocking_launches) return result;
    return wait_stream(f.world, f.thread, *s);
  });
}

}  // namespace

CUresult launch(CUstream stream, Kernel kernel) {
  return launch_through({k_cuLaunchKernel, false}, stream, kernel);
}

CUresult launch_ptsz(CUstream stream, Kernel kernel) {
  return launch_through({k_cuLaunchKernel_ptsz, true}, stream, kernel);
}

SIM_DOORS(cuLaunchKernel,
          _ptsz,
          (CUfunction fn,
           unsigned gx,
           unsigned gy,
           unsigned gz,
           unsigned bx,
           unsigned by,
           unsigned bz,
           unsigned shared,
           CUstream s,
           void** params,
           void** extra),
          (fn, gx, gy, gz, bx, by, bz, shared, s, params, extra)) {
  return launch_function(door, fn, {{gx, gy, gz}, {bx, by, bz}}, s, params, extra);
}

SIM_DOORS(cuLaunchCooperativeKernel,
          _ptsz,
          (CUfunction fn,
           unsigned gx,
           unsigned gy,
           unsigned gz,
           unsigned bx,
           unsigned by,
           unsigned bz,
           unsigned shared,
           CUstream s,
           void** params),
          (fn, gx, gy, gz, bx, by, bz, shared, s, params)) {
  return launch_function(door, fn, {{gx, gy, gz}, {bx, by, bz}}, s, params, nullptr);
}

SIM_DOORS(cuLaunchKernelEx,
          _ptsz,
          (const CUlaunchConfig* c, CUfunction fn, void** params, void** extra),
          (c, fn, params, extra)) {
  if (c == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const LaunchShape shape{{c->gridDimX, c->gridDimY, c->gridDimZ},
                          {c->blockDimX, c->blockDimY, c->blockDimZ}};
  bool early = false;
  for (unsigned i = 0; i < c->numAttrs; ++i) {
    early = early || (c->attrs[i].id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION &&
                      c->attrs[i].value.programmaticStreamSerializationAllowed != 0);
  }
  return launch_function(door, fn, shape, c->hStream, params, extra, early);
}

}  // namespace custash::sim
