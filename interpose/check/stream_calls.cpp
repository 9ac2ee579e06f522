// SPDX-License-Identifier: MIT
// clang-format off: first, as it includes cuda.h without the renaming macros
#include "interpose/check/observers.hpp"
// clang-format on
#include "interpose/check/check_time.hpp"
#include "interpose/check/graph_uses.hpp"
#include "interpose/check/stream_uses.hpp"
#include "interpose/process/process.hpp"
#include "interpose/process/quietly.hpp"

#include <optional>

namespace custash::check {
namespace {

using stream_uses::Addresses;
using streams::Chain;
using streams::CheckTime;
using streams::Clock;
using streams::Special;

std::optional<Chain> chain_of(const Call& call, CUstream stream) {
  return streams::chain_of({true, stream, call.null});
}

std::optional<Chain> chain_of(const Call& call) {
  return chain_of(call, call.stream);
}

bool is_of_graphs(Role role) {
  return is_between(role, Role::MakeExec, Role::SetExecNode);
}

CUcontext context_of(const Call& call) {
  CUcontext context = call.context;
  Allocator* const core = process::running();
  if (context == nullptr && core != nullptr) (void)core->driver().ctx_get_current(&context);
  return context;
}

Clock awaited(const Call& call) {
  if (call.role == Role::SyncContext) return streams::awaited(context_of(call));
  if (call.role == Role::SyncEvent || call.role == Role::QueryEvent)
    return streams::awaited(call.event);
  const std::optional<Chain> chain = chain_of(call);
  return chain ? streams::awaited(*chain) : Clock();
}

void launched(Chain chain, const Kernel& kernel) {
  stream_uses::launched(chain, kernel.function, kernel.params, kernel.extra);
}

// A launch may record an event.
void launched_with(const Call& call) {
  constexpr int kProgrammaticEvent = 7;
  constexpr int kCompletionEvent = 12;
  const CUlaunchConfig* const config = call.config;
  const auto chain = chain_of(call);
  if (!chain || config == nullptr) return;
  launched(*chain, call.kernel);
  for (unsigned i = 0; config->attrs != nullptr && i < config->numAttrs; ++i) {
    const int id = static_cast<int>(config->attrs[i].id);
    if (id == kProgrammaticEvent || id == kCompletionEvent)
      streams::recorded(config->attrs[i].value.programmaticEvent.event, *chain);
  }
}

void launched_on_devices(const Call& call) {
  for (const CUDA_LAUNCH_PARAMS& each : call.kernels)
    if (const auto chain = chain_of(call, each.hStream))
      launched(*chain, {each.function, each.kernelParams});
}

Addresses addresses_of(const Call& call) {
  if (call.is_empty) return {};
  Addresses out{{call.first}, {call.second}};
  for (std::size_t i = 0; i < call.targets.size(); ++i)
    out.insert(out.end(), {{call.targets[i]}, {call.sources[i]}});
  return out;
}

// The host may know, without a call, that the copy is over.
bool host_visible(const Call& call) {
  if (call.role == Role::CopyHostToDevice || call.role == Role::CopyHostToArray) return false;
  if (call.waits || (call.role != Role::CopyDeviceToHost && call.role != Role::Copy))
    return call.is_visible;
  Allocator* const core = process::running();
  return core == nullptr || stream_uses::has_waited(*core, call.target.first);
}

void copied(const Call& call, Chain chain) {
  const bool between_devices = call.role == Role::CopyPeer || call.role == Role::CopyBoxPeer;
  if (call.waits && between_devices) {  // waits for all work of both contexts
    streams::is_over(streams::awaited(call.context));
    streams::is_over(streams::awaited(call.other));
  }
  stream_uses::used(chain, call.name(), addresses_of(call));
  if (host_visible(call)) streams::special(chain, Special::TellsHost);
  if (call.waits) streams::is_over(streams::awaited(chain));
}

void submitted(const Call& call, Chain chain) {
  switch (call.role) {
    case Role::Launch:
    case Role::LaunchCooperative:
      return launched(chain, call.kernel);
    case Role::LaunchGraph:
      return graph_uses::launched(chain, call.executable);
    case Role::WaitEvent:
      return streams::waits(chain, call.event);
    default:
      break;
  }
  if (is_copy(call.role)) return copied(call, chain);
  stream_uses::used(chain, call.name(), addresses_of(call));
  if (call.role == Role::HostWork || call.role == Role::TellHost)
    streams::special(chain, Special::TellsHost);
  if (call.role == Role::HostWork || call.role == Role::WaitUnseen)
    streams::special(chain, Special::WaitsUnseen);
}

// The driver has accepted the parameters, so they are there.
struct Change {
  const Call& call;

  void operator()(std::monostate /*none*/) const {}

  void operator()(CUgraph to) const { graph_uses::changed(call.executable, call.node, to); }

  void operator()(const CUDA_KERNEL_NODE_PARAMS_v1* to) const {
    node_params::Kernel kernel{};  // version 1 ends with `base`
    kernel.base = *to;
    graph_uses::changed(call.executable, call.node, kernel);
  }

  template <typename Params>
  void operator()(const Params* to) const {
    graph_uses::changed(call.executable, call.node, *to);
  }
};

void changed(const Call& call) {
  switch (call.role) {
    case Role::MakeExec:
      return graph_uses::made(call.executable, call.graph);
    case Role::UpdateExec:
      return graph_uses::updated(call.executable, call.graph);
    case Role::EnableNode:
      return graph_uses::switched(call.executable, call.node, call.node_is_on);
    default:
      return std::visit(Change{call}, call.change);
  }
}

void succeeded(const Call& call) {
  const CheckTime::Scope timed;
  if (is_of_graphs(call.role)) return changed(call);
  switch (call.role) {
    case Role::EndContext:
      return streams::contexts_end();
    case Role::RecordEvent:
      if (const auto chain = chain_of(call)) streams::recorded(call.event, *chain);
      return;
    case Role::RecordContext:
      return streams::recorded(call.event, call.context);
    case Role::ContextWait:
      return streams::waits(call.context, call.event);
    case Role::MakeGreen:
      return streams::give_up();
    case Role::LaunchEx:
      return launched_with(call);
    case Role::LaunchOnDevices:
      return launched_on_devices(call);
    default:
      if (!call.is_submission) return;
      if (const auto chain = chain_of(call)) submitted(call, *chain);
  }
}

}  // namespace

bool StreamCalls::wants(const Call& call) {
  if (!streams::on()) return false;
  return call.is_submission || call.is_wait() || is_of_graphs(call.role) ||
         is_between(call.role, Role::EndContext, Role::MakeGreen) ||
         is_between(call.role, Role::ContextWait, Role::RecordContext) ||
         call.role == Role::LaunchEx || call.role == Role::LaunchOnDevices;
}

// Streams and executables that end: afterwards another thread may have a new one of the same
// handle.
StreamCalls::Token StreamCalls::before(const Call& call) noexcept {
  Clock clock;
  if (call.is_wait()) quietly([&] { clock = awaited(call); });
  if (call.role == Role::EndStream) streams::stream_destroyed(call.stream);
  if (call.role == Role::EndExec) graph_uses::forget(call.executable);
  return clock;
}

void StreamCalls::after(const Call& call, CUresult result, const Token& token) noexcept {
  if (call.role == Role::UpdateExec && result != CUDA_SUCCESS)
    graph_uses::forget(call.executable);
  if (result != CUDA_SUCCESS) return;
  if (call.is_wait()) return streams::is_over(token);
  quietly([&] { succeeded(call); });
}

}  // namespace custash::check
