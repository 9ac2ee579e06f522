// SPDX-License-Identifier: MIT
// The control functions of sim.hpp: moving work, faults, log, clock, looking in.
#include "tests/sim/entry.hpp"

#include <algorithm>
#include <cstring>

namespace custash::sim {
namespace {

Stream* control_stream(Guard& guard, CUstream handle) {
  ThreadState& thread = thread_state(*guard);
  CUresult why = CUDA_SUCCESS;
  Context* c = current_context(*guard, thread, &why);
  return find_stream(*guard, thread, c, false, handle);
}

template <typename Visit>
void each_symbol(std::string_view name, Visit&& visit) {
  for (int i = 0; i < kSymbols; ++i)
    if (name == kSymbolTable[i].name) visit(i);
}

std::size_t count_regions(bool (*counts)(Origin)) {
  const Guard guard;
  return static_cast<std::size_t>(
      std::count_if(guard->regions.begin(), guard->regions.end(), [&](const auto& each) {
        return counts(each.second.origin);
      }));
}

}  // namespace

// What one member of the world says.
#define SIM_TELL(Type, name, member) \
  Type name() {                      \
    const Guard guard;               \
    return guard->member;            \
  }

SIM_TELL(const Options&, options, options)

void set_flag(int flag) {
  const Guard guard;
  guard->flags.insert(flag);
  guard->device_time = std::max(guard->device_time, guard->now);
  guard->changed.notify_all();
}

bool step() {
  const Guard guard;
  return step_any(*guard);
}

std::size_t run(std::size_t n) {
  std::size_t done = 0;
  while (done < n && step())
    ++done;
  return done;
}

std::size_t run_all() {
  return run(~std::size_t{0});
}

std::size_t pending() {
  const Guard guard;
  return static_cast<std::size_t>(
      std::count_if(guard->ops.begin(), guard->ops.end(), [](const Op& op) {
        return op.state != Op::State::Done;
      }));
}

void hold(CUstream handle) {
  Guard guard;
  if (Stream* s = control_stream(guard, handle)) s->held = true;
}

void release(CUstream handle) {
  Guard guard;
  Stream* s = control_stream(guard, handle);
  if (s == nullptr) return;
  s->held = false;
  for (const OpId id : s->queue) {
    Op& op = guard->ops[id - guard->first_op];
    op.submitted = std::max(op.submitted, guard->now);
  }
  guard->changed.notify_all();
}

bool complete(OpId op) {
  const Guard guard;
  return is_done(*guard, op);
}

OpId last_op(CUstream handle) {
  Guard guard;
  const Stream* s = control_stream(guard, handle);
  return s == nullptr ? 0 : s->last;
}

SIM_TELL(bool, hung, hung)

Submitter::Submitter() : world_(0) {
  const Guard guard;
  world_ = guard->id;
  ++thread_state(*guard).submitters;
}

Submitter::~Submitter() {
  const Guard guard;
  if (guard->id != world_) return;
  --thread_state(*guard).submitters;
  guard->changed.notify_all();
}

void fail_call(std::uint64_t k, CUresult code, bool persistent) {
  const Guard guard;
  guard->injections.push_back({-1, k, code, persistent});
}

void fail_symbol(std::string_view symbol, std::uint64_t nth, CUresult code, bool persistent) {
  const Guard guard;
  each_symbol(symbol, [&](int i) { guard->injections.push_back({i, nth, code, persistent}); });
}

void clear_failures() {
  const Guard guard;
  guard->injections.clear();
}

SIM_TELL(std::uint64_t, calls_made, failable_calls)
SIM_TELL(std::uint64_t, failures_given, failures_given)
SIM_TELL(std::vector<std::string>, late_uses, late_uses)
SIM_TELL(std::vector<Fault>, faults, faults)
SIM_TELL(std::vector<Call>, calls, log)

std::uint64_t count(std::string_view symbol) {
  const Guard guard;
  std::uint64_t sum = 0;
  each_symbol(symbol, [&](int i) { sum += guard->counts[i]; });
  return sum;
}

std::uint64_t count_all() {
  const Guard guard;
  std::uint64_t sum = 0;
  for (const std::uint64_t n : guard->counts)
    sum += n;
  return sum;
}

Nanoseconds driver_time() {
  const Guard guard;
  Nanoseconds sum = 0;
  for (const Nanoseconds spent : guard->spent)
    sum += spent;
  return sum;
}

void clear_log() {
  const Guard guard;
  guard->log.clear();
  std::fill(std::begin(guard->counts), std::end(guard->counts), 0);
  std::fill(std::begin(guard->spent), std::end(guard->spent), 0);
}

std::string report() {
  const Guard guard;
  std::string text;
  char line[200];
  Nanoseconds sum = 0;
  for (int i = 0; i < kSymbols; ++i) {
    if (guard->counts[i] == 0) continue;
    sum += guard->spent[i];
    std::snprintf(line,
                  sizeof line,
                  "%-44s %10llu calls %12.3f ms\n",
                  kSymbolTable[i].name,
                  static_cast<unsigned long long>(guard->counts[i]),
                  static_cast<double>(guard->spent[i]) / 1e6);
    text += line;
  }
  if (!guard->late_uses.empty())
    text += "late_uses: " + std::to_string(guard->late_uses.size()) + ", the first " +
            guard->late_uses.front() + "\n";
  std::snprintf(line, sizeof line, "driver_time_ms: %.3f\n", static_cast<double>(sum) / 1e6);
  return text + line;
}

SIM_TELL(Nanoseconds, now, now)

void advance_clock(Nanoseconds by) {
  const Guard guard;
  guard->now += by;
  if (guard->options.advance == Advance::Timed) advance(*guard);
}

void rest(Nanoseconds time) {
  advance_clock(time);
  const Guard guard;
  if (guard->options.advance != Advance::Timed) step_any(*guard);
}

void set_entry_check(void (*check)()) {
  const Guard guard;
  entry_check = check;
}

ThreadId this_thread() {
  const Guard guard;
  return thread_state(*guard).id;
}

std::vector<Touch> translate(Address address, Bytes bytes) {
  const Guard guard;
  return translate_access(*guard, nullptr, false, {address, bytes, false});
}

Bytes used(int device) {
  const Guard guard;
  return guard->devices.at(static_cast<std::size_t>(device)).used;
}

SIM_TELL(std::size_t, live_handles, handles.live())

std::size_t live_mappings() {
  return count_regions([](Origin o) { return o == Origin::Vmm; });
}

SIM_TELL(std::size_t, live_streams, streams.live())

std::size_t live_host_blocks() {
  return count_regions([](Origin o) { return o == Origin::Host; });
}

}  // namespace custash::sim
