// SPDX-License-Identifier: MIT
// Proved: tests/models/sleep.pml.
#include "allocator/sleep/standstill.hpp"

#include "allocator/base/rule.hpp"
#include "allocator/registry.hpp"

#include <algorithm>

namespace custash {
namespace {

constexpr Nanoseconds kShort = 50'000;
constexpr const char* kCame = "the program has submitted work meanwhile";
constexpr const char* kGivesWay = "the program is ending a context";

}  // namespace

bool LivingContexts::add(const std::vector<ContextCache*>& caches) {
  bool all = true;
  for (ContextCache* cache : caches) {
    if (std::find(caches_.begin(), caches_.end(), cache) != caches_.end()) continue;
    ContextEvents& events = cache->timeline().events();
    uses_.emplace_back(events.users());
    if (uses_.back())
      caches_.push_back(cache);
    else
      all = all && events.ended();
  }
  return all;
}

std::string Standstill::begin(bool asleep_too) {
  std::string why = close(asleep_too);
  return why.empty() ? wait_until_idle() : why;
}

void Standstill::open() {
  if (closed_) (void)state_.sleep_gate.change(SleepState::GoingToSleep, from_);
  closed_ = false;
}

std::string Standstill::refusal(Allocator::State& state) {
  if (!state.config.single_stream)
    return "custash does not see the program's submissions (free:strict, or custash was loaded late)";
  if (state.config.guard.on_device != nullptr) return "option guard: is on";
  if (const char* const engine = state.engine.load(); engine != nullptr)
    return std::string("the process uses ") + engine + ", whose work custash does not see";
  return state.sleeping.ends() ? "the process ends" : "";
}

std::string Standstill::close(bool asleep_too) {
  const SleepState now = state_.sleep_gate.state();
  if (asleep_too && now == SleepState::Asleep) from_ = now;
  if (!state_.sleep_gate.change(from_, SleepState::GoingToSleep))
    return std::string("the process is ") + sleep_state_name(now);
  closed_ = true;
  closed_at_ = driver_.now();
  if (!contexts_.add(state_.all()))  // those that came meanwhile
    return kGivesWay;
  for (ContextCache* cache : caches())
    cache->timeline().submissions().bar();
  return state_.gate.capturing_or_coming() ? "a stream capture is under way" : "";
}

std::string Standstill::wait_until_idle() {
  const Nanoseconds until = state_.driver.now() + request_.patience;
  for (ContextCache* cache : caches()) {
    Timeline& timeline = cache->timeline();
    const CurrentContext current(state_.driver, cache->context());
    while (holds(Rule::contents_are_saved_when_work_is_over)) {
      if (timeline.idle_behind_bar()) break;
      if (timeline.events().broken()) return "a kernel of the program has faulted";
      if (disturbed()) return kCame;
      if (gives_way()) return kGivesWay;
      if (state_.sleeping.ends()) return "the process ends";
      if (state_.driver.now() >= until) {
        return "kernels still run after " + std::to_string(request_.patience / 1'000'000) +
               " ms";
      }
      state_.driver.rest(kShort);
    }
  }
  while (state_.sleep_gate.held()) {
    if (state_.sleeping.ends()) return "the process ends";
    if (gives_way()) return kGivesWay;
    if (state_.driver.now() >= until) return "a call that needs the memory goes on";
    state_.driver.rest(kShort);
  }
  return {};
}

bool Standstill::gives_way() const {
  return request_.gives_way != nullptr && request_.gives_way();
}

bool Standstill::disturbed() const {
  return closed_ && request_.only_if_idle && state_.sleep_gate.somebody_came();
}

void Standstill::leave_asleep(Bytes bytes, void (*wake)(void* state)) {
  if (!closed_) return;
  state_.sleep_gate.set_waker(wake, &state_);
  state_.sleep_gate.asleep.store(bytes);
  if (!was_asleep()) state_.sleep_gate.promised.store(0);
  closed_ = false;
  (void)state_.sleep_gate.change(SleepState::GoingToSleep, SleepState::Asleep);
}

}  // namespace custash
