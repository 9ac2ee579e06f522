// SPDX-License-Identifier: MIT
#include "interpose/process/process.hpp"

#include "allocator/base/last_error.hpp"
#include "allocator/base/thread.hpp"
#include "interpose/process/life.hpp"
#include "interpose/real/real_driver.hpp"

#include <new>

#include <sched.h>
#include <unistd.h>

namespace custash::process {

constinit std::atomic<Allocator*> current{nullptr};

namespace {

constinit std::atomic<State> now{State::NotStarted};
constinit std::atomic<pid_t> starter{
    0};  // the thread that is Starting: a child forked meanwhile must not wait for it
alignas(Allocator) unsigned char storage[sizeof(Allocator)];
alignas(HostCache) unsigned char pinned_storage[sizeof(HostCache)];
constinit std::atomic<Allocator*> built{nullptr};
// The starting thread itself may re-enter, through a malloc that uses CUDA.
constinit thread_local bool starting_here = false;

State try_build() noexcept {
  try {
    return build();
  } catch (...) {  // no memory for the core: the program runs without custash
    return State::Disabled;
  }
}

void start() noexcept {
  const CancellationOff off;
  State expected = State::NotStarted;
  if (!now.compare_exchange_strong(expected, State::Starting)) return;
  starter.store(getpid());
  starting_here = true;
  const State outcome = try_build();
  starting_here = false;
  if (outcome == State::Running) current.store(built.load(), std::memory_order_release);
  now.store(outcome, std::memory_order_release);
}

bool driver_is_up() noexcept {
  return driver_says() == CUDA_SUCCESS;
}

}  // namespace

Allocator& make_core(const Driver& driver, const Config& config) {
  auto* const made = new (storage) Allocator(driver, config);
  new (pinned_storage) HostCache(driver, made->config(), *made);
  built.store(made, std::memory_order_release);
  return *made;
}

Allocator* made_core() noexcept {
  return built.load();
}

bool started_here() noexcept {
  return starter.load() == getpid();
}

bool shut_down() noexcept {
  State expected = State::Running;
  if (!now.compare_exchange_strong(expected, State::ShutDown)) return false;
  current.store(nullptr, std::memory_order_release);
  return true;
}

bool become_forked() noexcept {
  if (now.load() == State::Disabled) return false;
  now.store(State::Forked);
  current.store(nullptr);
  return true;
}

Allocator* running() noexcept {
  return holds_a_lock() ? nullptr : current.load(std::memory_order_acquire);
}

HostCache& pinned() noexcept {
  return *std::launder(reinterpret_cast<HostCache*>(pinned_storage));
}

State state() noexcept {
  return now.load(std::memory_order_acquire);
}

const char* last_refusal() noexcept {
  return last_error();
}

CUresult driver_says() noexcept {
  if (holds_a_lock()) return CUDA_ERROR_NOT_PERMITTED;
  using GetCurrent = CUresult(CUcontext*);
  static constinit std::atomic<GetCurrent*> get_current{nullptr};
  GetCurrent* call = get_current.load(std::memory_order_relaxed);
  if (call == nullptr) {
    call = reinterpret_cast<GetCurrent*>(real::symbol("cuCtxGetCurrent"));
    get_current.store(call, std::memory_order_relaxed);
  }
  CUcontext context = nullptr;
  return call == nullptr ? CUDA_ERROR_NOT_INITIALIZED : call(&context);
}

Allocator* first_use() noexcept {
  if (state() == State::NotStarted && driver_is_up()) start();
  while (state() == State::Starting && !starting_here) {
    const pid_t by = starter.load();
    if (by != 0 && by != getpid()) {
      now.store(State::Forked);
      break;
    }
    sched_yield();
  }
  return current.load(std::memory_order_acquire);
}

bool left_behind(Address address) noexcept {
  if (holds_a_lock()) return built.load()->owns(address);
  if (state() != State::ShutDown) return false;
  return built.load()->find(address, nullptr) != Ownership::Foreign;
}

bool left_behind(const void* host) noexcept {
  if (holds_a_lock()) return pinned().may_own(reinterpret_cast<Address>(host));
  if (state() != State::ShutDown) return false;
  return pinned().find(reinterpret_cast<Address>(host), nullptr) != Ownership::Foreign;
}

}  // namespace custash::process
