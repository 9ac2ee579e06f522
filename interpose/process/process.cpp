// SPDX-License-Identifier: MIT
#include "interpose/process/process.hpp"

#include "allocator/base/log.hpp"
#include "allocator/peer_processes.hpp"
#include "interpose/hooks/host_ranges.hpp"
#include "interpose/hooks/layouts.hpp"
#include "interpose/ipc/ipc.hpp"
#include "interpose/observe/driver_calls.hpp"
#include "interpose/observe/dumps.hpp"
#include "interpose/observe/launcher.hpp"
#include "interpose/observe/record.hpp"
#include "interpose/observe/summary.hpp"
#include "interpose/process/checkers.hpp"
#include "interpose/process/log_file.hpp"
#include "interpose/process/output_file.hpp"
#include "interpose/real/real_driver.hpp"
#include "interpose/real/resolve.hpp"
#include "interpose/service/neighbours.hpp"
#include "interpose/service/service.hpp"

#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

namespace custash::process {

constinit std::atomic<Allocator*> current{nullptr};

namespace {

constinit std::atomic<State> now{State::NotStarted};
constinit std::atomic<pid_t> starter{
    0};  // who is Starting: a child of a fork just then must not wait
constinit Driver driver{};
constinit const char* conf = nullptr;
constinit bool conf_read = false;
alignas(Allocator) unsigned char storage[sizeof(Allocator)];
alignas(HostCache) unsigned char pinned_storage[sizeof(HostCache)];
constinit std::atomic<Allocator*> built{nullptr};
// The starting thread itself may come back, through a malloc that uses CUDA.
constinit thread_local bool starting_here = false;

// Not at first use: the program may have changed its environment by then, and getenv races with
// setenv in other threads. (Only a constructor of the program's own libraries can be earlier.)
__attribute__((constructor)) void read_environment() {
  if (conf_read) return;
  conf_read = true;
  checkers::read_environment();
  launcher::read_environment();
  const char* const text = secure_getenv("CUSTASH_CONF");
  if (text != nullptr && *text != '\0') conf = strdup(text);
}

void before_exit() {
  State expected = State::Running;
  if (!now.compare_exchange_strong(expected, State::ShutDown)) return;
  current.store(nullptr, std::memory_order_release);
  service::stop();
  Allocator& core = *built.load();
  launcher::finish(core);
  if (core.config().summary && !launcher::takes(launcher::Report::Summary)) print_summary(core);
  dumps::at_exit(core);
}

void in_forked_child() {
  if (now.load() == State::Disabled) return;
  now.store(State::Forked);
  host_ranges::reset_lock_after_fork();
  layouts::reset_lock_after_fork();
  current.store(nullptr);
  service::after_fork_in_child();
  ipc::after_fork_in_child();
  if (Allocator* const core = built.load()) {
    core->after_fork_in_child();
    pinned().after_fork_in_child();
  }
}

void say(const std::string& line) {
  (void)output::write_all(STDERR_FILENO, line + "\n");
}

void say_switched_off() {
  if (starter.load() == getpid()) say("custash: enabled:false: 0 allocations served");
}

// A cached block that is used after its free, or past its end, is memory like any other to a
// checker.
void heed_checkers(Config* config) {
  if (const char* const seen = checkers::debugger())
    log(LogLevel::Info, "event=debugger seen=" + std::string(seen));
  const char* const seen = checkers::sanitizer();
  if (seen != nullptr && config->caching == Caching::Auto) {
    config->caching = Caching::Never;
    log(LogLevel::Warn,
        "event=caching_off reason=\"compute-sanitizer\" seen=" + std::string(seen));
  }
  if (config->caching == Caching::Never) config->pinned = false;
}

State build() {
  if (another_copy_serves()) return State::Disabled;
  read_environment();
  ParsedConfig parsed = parse_config(conf == nullptr ? "" : conf);
  for (const std::string& complaint : parsed.complaints)
    say(complaint);
  if (std::string why;
      !parsed.config.record.empty() && !record::start(parsed.config.record, say, &why))
    say("custash: record:" + parsed.config.record + ": " + why + "; nothing is recorded");
  if (!parsed.config.enabled) {
    if (parsed.config.summary) (void)std::atexit(say_switched_off);
    return State::Disabled;
  }
  if (const std::string why = log_file::open(parsed.config.log, parsed.config.log_file);
      !why.empty())
    say("custash: " + why + "; no log is kept");
  heed_checkers(&parsed.config);
  if (!stands_in_front()) {
    parsed.config.one_lane = false;
    log(LogLevel::Info, "event=opened_late reason=\"submissions are not seen: one_lane:off\"");
  }
  if (!driver.fill(real::symbol)) {
    log(LogLevel::Error, "event=disabled reason=\"the driver lacks a call that is needed\"");
    return State::Disabled;
  }
  driver_calls::time_calls(
      &driver,
      parsed.config.detailed_stats ? driver_calls::Which::All : driver_calls::Which::Slow);
  host_ranges::follow(&driver);
  if (parsed.config.control || parsed.config.neighbours) service::start_with_memory(driver);
  auto* const made = new (storage) Allocator(driver, parsed.config);
  if (parsed.config.neighbours) PeerProcesses(*made).set_neighbours(neighbours::ask);
  new (pinned_storage) HostCache(driver, made->config(), *made);
  built.store(made, std::memory_order_release);
  // The driver registered its own handler in cuInit, so that ours, later, runs before it.
  if (std::atexit(before_exit) != 0 || pthread_atfork(nullptr, nullptr, in_forked_child) != 0) {
    log(LogLevel::Error, "event=disabled reason=\"no room for exit and fork handlers\"");
    return State::Disabled;
  }
  launcher::begin(*made);
  dumps::begin(made->config(), say);
  log(LogLevel::Info, "event=started");
  return State::Running;
}

State try_build() noexcept {
  try {
    return build();
  } catch (...) {  // no memory for the core: then the program runs without it
    return State::Disabled;
  }
}

void start() noexcept {
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

HostCache& pinned() noexcept {
  return *std::launder(reinterpret_cast<HostCache*>(pinned_storage));
}

State state() noexcept {
  return now.load(std::memory_order_acquire);
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
  if (holds_a_lock()) return pinned().may_own(host);
  if (state() != State::ShutDown) return false;
  return pinned().find(reinterpret_cast<Address>(host), nullptr) != Ownership::Foreign;
}

}  // namespace custash::process
