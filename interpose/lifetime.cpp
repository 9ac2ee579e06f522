// SPDX-License-Identifier: MIT
// The ends of contexts and streams, peers, and the call that everything begins with.
#include "interpose/doors.hpp"
#include "interpose/async_memory.hpp"
#include "interpose/device_scope.hpp"
#include "interpose/handlers.hpp"
#include "interpose/ipc.hpp"
#include "interpose/service.hpp"

namespace custash::handlers {
namespace {

void ends(Allocator& core, CUcontext context) {
  ipc::context_ends(core, context);
  async_memory::context_ended(context);
  process::pinned().context_destroyed(context);
  core.context_destroyed(context);
}

void has_ended(Allocator& core, CUcontext context) {
  core.context_gone(context);
  process::pinned().context_gone(context);
}

}  // namespace

CUresult init(Real<unsigned> real, NullStream, unsigned flags) {
  const CUresult result = real(flags);
  // At once: our exit handler must be the next after the driver's.
  if (result == CUDA_SUCCESS) process::core();
  return result;
}

CUresult ctx_destroy(Real<CUcontext> real, NullStream, CUcontext context) {
  Allocator* const core = process::core();
  if (core == nullptr || context == nullptr) return real(context);
  const service::Pause pause;
  ends(*core, context);
  const CUresult result = real(context);
  has_ended(*core, context);
  return result;
}

// A green context is a context like others to whoever makes it current: what is kept of it, its events
// before all, goes before it does.
CUresult green_ctx_destroy(Real<void*> real, NullStream, void* green) {
  using FromGreen = CUresult(CUcontext*, void*);
  auto* const from_green = reinterpret_cast<FromGreen*>(real::symbol("cuCtxFromGreenCtx"));
  Allocator* const core = process::core();
  CUcontext context = nullptr;
  if (core == nullptr || from_green == nullptr || from_green(&context, green) != CUDA_SUCCESS)
    return real(green);
  const service::Pause pause;
  ends(*core, context);
  const CUresult result = real(green);
  has_ended(*core, context);
  return result;
}

// Only the last release destroys, and only afterwards is it known which was the last.
CUresult primary_release(Real<CUdevice> real, NullStream, CUdevice device) {
  Allocator* const core = process::core();
  CUcontext const context = core == nullptr ? nullptr : primary_context(*core, device);
  if (context == nullptr) return real(device);
  const service::Pause pause;
  const CUresult result = real(device);
  if (result != CUDA_SUCCESS || is_primary_active(*core, device)) return result;
  ends(*core, context);
  has_ended(*core, context);
  return result;
}

CUresult primary_reset(Real<CUdevice> real, NullStream, CUdevice device) {
  Allocator* const core = process::core();
  CUcontext const context = core == nullptr ? nullptr : primary_context(*core, device);
  if (context == nullptr) return real(device);
  const service::Pause pause;
  ends(*core, context);
  const CUresult result = real(device);
  has_ended(*core, context);
  return result;
}

CUresult stream_destroy(Real<CUstream> real, NullStream, CUstream stream) {
  if (Allocator* const core = process::core(); core != nullptr && stream != nullptr) {
    core->stream_destroyed(stream);
  }
  return real(stream);
}

CUresult peer_enable(Real<CUcontext, unsigned> real, NullStream, CUcontext peer, unsigned flags) {
  const CUresult result =
      doors::with_relief(real, [&](auto* call) { return call(peer, flags); });
  Allocator* const core = process::core();
  CUcontext self = nullptr;
  if (result == CUDA_SUCCESS && core != nullptr &&
      core->driver().ctx_get_current(&self) == CUDA_SUCCESS) {
    core->peer_access_enabled(peer, self);
  }
  return result;
}

CUresult peer_disable(Real<CUcontext> real, NullStream, CUcontext peer) {
  const CUresult result = real(peer);
  Allocator* const core = process::core();
  CUcontext self = nullptr;
  if (result == CUDA_SUCCESS && core != nullptr &&
      core->driver().ctx_get_current(&self) == CUDA_SUCCESS) {
    core->peer_access_disabled(peer, self);
  }
  return result;
}

}  // namespace custash::handlers
