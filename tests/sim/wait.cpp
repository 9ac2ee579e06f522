// SPDX-License-Identifier: MIT
// How the host waits: for operations, streams, contexts, devices; and when a wait is hopeless.
#include "tests/sim/engine.hpp"
#include "tests/sim/lifetime.hpp"

#include <algorithm>

namespace custash::sim {
namespace {

// All that must be complete before the targets are, in an order in which it can be run.
std::vector<OpId> closure(World& w, const std::vector<OpId>& targets) {
  std::vector<OpId> stack;
  std::set<OpId> seen;
  auto visit = [&](OpId id) {
    if (!is_done(w, id) && seen.insert(id).second) stack.push_back(id);
  };
  for (const OpId id : targets)
    visit(id);
  while (!stack.empty()) {
    const OpId id = stack.back();
    stack.pop_back();
    for (const OpId before : find_op(w, id)->after)
      visit(before);
  }
  return {seen.begin(), seen.end()};
}

// One round towards the targets. False: nothing could move.
bool work_towards(World& w, const std::vector<OpId>& needed) {
  if (w.options.advance != Advance::Told) return step_any(w);
  bool moved = false;
  for (const OpId id : needed)
    moved = try_move(w, id) || moved;
  return moved || step_any(w);
}

bool others_could_help(const World& w, const ThreadState& self) {
  if (w.calling > 0) return true;
  const bool held =
      std::any_of(w.active.begin(), w.active.end(), [](const Stream* s) { return s->held; });
  for (const auto& thread : w.threads)
    if (thread.get() != &self && thread->submitters > 0 && !thread->waiting) return true;
  return held;
}

}  // namespace

void tell_join(World& w, ThreadState& thread, std::span<const OpId> completed) {
  Observer* o = observer();
  if (o == nullptr) return;
  o->on_host_join(thread.id, completed);
  if (by_allocator()) o->on_allocator_learns(completed);
}

namespace {

CUresult wait_until_done(World& w, ThreadState& thread, const std::vector<OpId>& targets) {
  auto all_done = [&] {
    return std::all_of(targets.begin(), targets.end(), [&](OpId id) { return is_done(w, id); });
  };
  const auto deadline = std::chrono::steady_clock::now() + w.options.patience;
  const std::vector<OpId> needed =
      w.options.advance == Advance::Told ? closure(w, targets) : std::vector<OpId>{};
  const bool was_hung = w.hung;
  while (!all_done()) {
    if (work_towards(w, needed)) continue;
    if (all_done()) break;
    bool timely = others_could_help(w, thread);
    if (timely) {
      std::unique_lock<std::mutex> lock(world_mutex(), std::adopt_lock);
      thread.waiting = true;
      w.changed.notify_all();
      // A host function may take as long as it likes; all else only as long as our patience.
      const auto until =
          w.calling > 0 ? std::chrono::steady_clock::now() + std::chrono::seconds(1) : deadline;
      timely = w.changed.wait_until(lock, until) == std::cv_status::no_timeout || w.calling > 0;
      thread.waiting = false;
      lock.release();
    }
    // Found hung by another thread while this one waited too: both are in the knot.
    if (timely && (was_hung || !w.hung)) continue;
    w.hung = true;
    w.changed.notify_all();
    return CUDA_ERROR_LAUNCH_TIMEOUT;
  }
  Nanoseconds latest = w.now;
  for (const OpId id : targets)
    if (const Op* op = find_op(w, id)) latest = std::max(latest, op->finish);
  w.now = latest;
  return CUDA_SUCCESS;
}

}  // namespace

CUresult wait_for(World& w, ThreadState& thread, std::vector<OpId> targets) {
  SIM_TRY(wait_until_done(w, thread, targets));
  trim_pools(w, thread);
  tell_join(w, thread, targets);
  return CUDA_SUCCESS;
}

CUresult wait_stream(World& w, ThreadState& thread, Stream& s) {
  const Nanoseconds finish = s.last_finish;  // the stream may be destroyed while we wait
  const std::uint64_t context = s.context->id;
  SIM_TRY(wait_for(w, thread, s.last == 0 ? std::vector<OpId>{} : std::vector<OpId>{s.last}));
  w.now = std::max(w.now, finish);
  const Context* c = context_by_id(w, context);
  return c == nullptr ? CUDA_SUCCESS : c->home->sticky;
}

CUresult wait_context(World& w, ThreadState& thread, Context& c) {
  const std::uint64_t id = c.id;
  SIM_TRY(wait_for(w, thread, frontier(c)));
  const Context* still = context_by_id(w, id);
  if (still == nullptr) return CUDA_SUCCESS;
  w.now = std::max(w.now, latest_finish(*still));
  return still->home->sticky;
}

CUresult wait_device(World& w, ThreadState& thread, int device) {
  std::vector<OpId> targets;
  w.contexts.each([&](Context& c) {
    if (c.device != device) return;
    const std::vector<OpId> ops = frontier(c);
    targets.insert(targets.end(), ops.begin(), ops.end());
  });
  SIM_TRY(wait_for(w, thread, std::move(targets)));
  w.contexts.each([&](Context& c) {
    if (c.device == device) w.now = std::max(w.now, latest_finish(c));
  });
  return CUDA_SUCCESS;
}

}  // namespace custash::sim
