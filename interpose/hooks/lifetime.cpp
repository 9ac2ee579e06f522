// SPDX-License-Identifier: MIT
// The ends of contexts and streams, access to peers, and cuInit.
#include "allocator/order/context_users.hpp"
#include "allocator/sleep/sleep.hpp"
#include "interpose/counters/passed.hpp"
#include "interpose/hooks/async_memory.hpp"
#include "interpose/hooks/charges.hpp"
#include "interpose/hooks/handle_table.hpp"
#include "interpose/hooks/handlers.hpp"
#include "interpose/hooks/hook.hpp"
#include "interpose/hooks/layouts.hpp"
#include "interpose/hooks/own_pools.hpp"
#include "interpose/ipc/ipc.hpp"
#include "interpose/observe/report_library.hpp"
#include "interpose/process/check_library.hpp"
#include "interpose/process/device_scope.hpp"
#include "interpose/service/service.hpp"

#include <algorithm>
#include <array>
#include <atomic>

namespace custash::handlers {
namespace {

// Returns what of the driver's memory ends with the context.
passed::Ended ends(Allocator& core, CUcontext context) {
  layouts::drop();
  ipc::context_ends(core, context);
  async_memory::context_ended(context);
  own_pools::context_ended(core, context);
  passed::Ended ended = passed::table().context_ended(context);
  for (const passed::EndedObject& each : ended)
    reports::ended(each.kind, each.object);
  process::pinned().context_destroyed(context);
  core.context_destroyed(context);
  return ended;
}

void has_ended(Allocator& core, CUcontext context, const passed::Ended& memory) {
  charges::give_all(memory);
  core.context_gone(context);
  charges::changes_unseen();
  process::pinned().reclaim().context_gone(context);
  if (const CheckLibrary* const checks = check_library()) checks->context_ended(context);
}

// How often the program was seen to retain each device's primary context.
class PrimaryUses {
 public:
  void retained(CUdevice device, CUcontext context) {
    of(device).fetch_add(1);
    contexts_[index(device)].store(context);
  }

  // It was one when it was last retained. A device keeps its handle.
  [[nodiscard]] bool has(CUcontext context) const {
    return std::any_of(contexts_.begin(), contexts_.end(), [&](const auto& each) {
      return each.load() == context;
    });
  }

  // True: this may be the last release. If unseen retains remain it is not, which does no
  // harm.
  bool releasing(CUdevice device) {
    int seen = of(device).load();
    while (seen > 0 && !of(device).compare_exchange_weak(seen, seen - 1)) {
    }
    return seen <= 1;
  }

  void reset(CUdevice device) { of(device).store(0); }

 private:
  static constexpr std::size_t kDevices = 64;  // devices beyond share the last

  static std::size_t index(CUdevice device) {
    return std::min(static_cast<std::size_t>(device), kDevices - 1);
  }

  std::atomic<int>& of(CUdevice device) { return uses_[index(device)]; }

  std::array<std::atomic<int>, kDevices> uses_{};
  std::array<std::atomic<CUcontext>, kDevices> contexts_{};
};

constinit PrimaryUses primary_uses;

// A context ends.
struct Ending {
  explicit Ending(Allocator* core)
      // Contents of the program's own mappings are kept with a context, but do not end with it.
      : awake(handle_table().any_mapped() ? core : nullptr) {}

  const service::Pause pause;
  const KeepAwake awake;
  const Quota::Call charged;
};

}  // namespace

CUresult init(Real<unsigned> real, NullStream, unsigned flags) {
  const CUresult result = real(flags);
  // At once, because our exit handler must be the next after the driver's.
  if (result == CUDA_SUCCESS) process::core();
  return result;
}

CUresult ctx_destroy(Real<CUcontext> real, NullStream, CUcontext context) {
  Allocator* const core = process::core();
  // The driver refuses a primary context, whose memory goes on.
  if (core == nullptr || context == nullptr || primary_uses.has(context)) return real(context);
  const Ending ending(core);
  const passed::Ended memory = ends(*core, context);
  const CUresult result = real(context);
  has_ended(*core, context, memory);
  return result;
}

// A green context acts as an ordinary context for a thread that makes it current. So everything
// that custash keeps of it, its events first, ends before it does.
CUresult green_ctx_destroy(Real<void*> real, NullStream, void* green) {
  using FromGreen = CUresult(CUcontext*, void*);
  auto* const from_green = reinterpret_cast<FromGreen*>(real::symbol("cuCtxFromGreenCtx"));
  Allocator* const core = process::core();
  CUcontext context = nullptr;
  if (core == nullptr || from_green == nullptr || from_green(&context, green) != CUDA_SUCCESS)
    return real(green);
  const Ending ending(core);
  const passed::Ended memory = ends(*core, context);
  const CUresult result = real(green);
  has_ended(*core, context, memory);
  return result;
}

CUresult primary_retain(Real<CUcontext*, CUdevice> real,
                        NullStream,
                        CUcontext* out,
                        CUdevice device) {
  const CUresult result =
      hooks::retry_after_trim(real, [&](auto* call) { return call(out, device); });
  charges::changes_unseen();
  if (result == CUDA_SUCCESS) primary_uses.retained(device, *out);
  return result;
}

// Only the last release destroys the context, and which one was the last is certain only
// afterwards.
CUresult primary_release(Real<CUdevice> real, NullStream, CUdevice device) {
  Allocator* const core = process::core();
  CUcontext const context = core == nullptr ? nullptr : primary_context(*core, device);
  if (context == nullptr) return real(device);
  const bool last = primary_uses.releasing(device);
  const Ending ending(core);
  ContextUsers* const users = last ? core->users_of(context) : nullptr;
  if (users != nullptr) users->close();
  if (last) layouts::drop();  // before another context may get the handles
  const CUresult result = real(device);
  if (result != CUDA_SUCCESS || is_primary_active(*core, device)) {
    if (users != nullptr) users->open();
    return result;
  }
  has_ended(*core, context, ends(*core, context));
  return result;
}

CUresult primary_reset(Real<CUdevice> real, NullStream, CUdevice device) {
  Allocator* const core = process::core();
  CUcontext const context = core == nullptr ? nullptr : primary_context(*core, device);
  if (context == nullptr) return real(device);
  const Ending ending(core);
  primary_uses.reset(device);
  const passed::Ended memory = ends(*core, context);
  const CUresult result = real(device);
  has_ended(*core, context, memory);
  return result;
}

CUresult stream_destroy(Real<CUstream> real, NullStream, CUstream stream) {
  if (Allocator* const core = process::core(); core != nullptr && stream != nullptr) {
    core->stream_destroyed(stream);
  }
  return real(stream);
}

CUresult peer_enable(Real<CUcontext, unsigned> real,
                     NullStream,
                     CUcontext peer,
                     unsigned flags) {
  const CUresult result =
      hooks::retry_after_trim(real, [&](auto* call) { return call(peer, flags); });
  Allocator* const core = process::core();
  CUcontext self = nullptr;
  if (result == CUDA_SUCCESS && core != nullptr &&
      core->driver().ctx_get_current(&self) == CUDA_SUCCESS) {
    core->peer_access_enabled(peer, self);
  }
  return result;
}

}  // namespace custash::handlers
