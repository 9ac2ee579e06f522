// SPDX-License-Identifier: MIT
// clang-format off: first, as it includes cuda.h without the renaming macros
#include "interpose/check/observers.hpp"
// clang-format on
#include "interpose/check/guard_report.hpp"
#include "interpose/check/guarded_memory.hpp"
#include "interpose/check/kernel_name.hpp"
#include "interpose/hooks/host_view.hpp"
#include "interpose/hooks/parameters.hpp"
#include "interpose/process/captures.hpp"
#include "interpose/process/process.hpp"
#include "interpose/process/quietly.hpp"

#include <utility>

namespace custash::check {
namespace {

// Its addresses are checked, and its end is known by waits.
bool is_checked(Role role) {
  return is_between(role, Role::Launch, Role::LaunchGraph) ||
         is_between(role, Role::Copy, Role::CopyBoxPeer) || is_set(role);
}

// It shows that work is over. (Events are not followed.)
bool ends_work(Role role) {
  return is_between(role, Role::SyncContext, Role::QueryStream);
}

CUcontext current_context(Allocator& core) {
  CUcontext context = nullptr;
  (void)core.driver().ctx_get_current(&context);
  return context;
}

CUstream handle_of(const Call& call) {
  return guards::handle_of({true, call.stream, call.null});
}

void order_fills(Allocator& core, const Call& call) {
  GuardedMemory memory(core);
  if (call.role != Role::LaunchOnDevices) return memory.order_fills(handle_of(call));
  for (const CUDA_LAUNCH_PARAMS& each : call.kernels)
    memory.order_fills(each.hStream);
}

void note_word(void* work, Address word, std::size_t) {
  if (guards::may_be_guarded(word)) static_cast<guards::Work*>(work)->note(word);
}

void note_kernel(Allocator& core, const Kernel& kernel, guards::Work* work) {
  if (kernel.function == nullptr) return;
  work->name = kernel_name(kernel.function);
  parameters::visit_words(
      core.driver(), kernel.function, kernel.params, kernel.extra, note_word, work);
}

void check_rows(const char* name, const copy_rows::Rows& rows, guards::Work* work) {
  if (rows.bytes == 0 ||
      (!guards::may_be_guarded(rows.first) && !guards::may_be_guarded(rows.last)))
    return;
  work->note(rows.first);
  guards::will_use_rows(name, rows.first, rows.last, rows.bytes);
}

void look(Allocator& core, const Call& call, guards::Work* work) {
  work->stream = handle_of(call);
  work->context = current_context(core);
  work->name = call.name();
  work->captured =
      captures::under_way() && captures::is_capturing(core, work->stream, call.null);
  work->graph = call.role == Role::LaunchGraph;
  note_kernel(core, call.kernel, work);
  check_rows(call.name(), call.target, work);
  check_rows(call.name(), call.source, work);
}

}  // namespace

bool GuardCalls::wants(const Call& call) {
  if (!config->guard.any()) return false;
  return is_checked(call.role) || ends_work(call.role) ||
         (call.is_submission && config->guard.fill);
}

GuardCalls::Token GuardCalls::before(const Call& call) noexcept {
  Token token;
  if (call.is_wait()) {
    if (call.role != Role::SyncEvent) token.before = guards::now();
    return token;
  }
  Allocator* const core = process::running();
  if (core == nullptr) return token;
  quietly([&] {
    order_fills(*core, call);
    if (!is_checked(call.role)) return;
    look(*core, call, &token.work);
    // If few blocks have guards, the next allocation or wait is soon enough.
    if (config->guard.one_in == 1) GuardedMemory(*core).give_back_freed();
  });
  return token;
}

void GuardCalls::after(const Call& call, CUresult result, Token& token) noexcept {
  if (result != CUDA_SUCCESS) return;
  if (is_checked(call.role)) return guards::submitted(std::move(token.work));
  Allocator* const core = process::running();
  if (!call.is_wait() || core == nullptr) return;
  if (call.role == Role::SyncContext)
    guards::over(call.context != nullptr ? call.context : current_context(*core),
                 std::nullopt,
                 token.before);
  else if (call.role != Role::SyncEvent)
    guards::over(current_context(*core), handle_of(call), token.before);
  quietly([&] {  // host memory may run out
    GuardedMemory(*core).give_back_freed();
    if (HostSampler* const sampler = process::pinned().sampler()) sampler->waited();
  });
}

}  // namespace custash::check
