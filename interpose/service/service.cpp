// SPDX-License-Identifier: MIT
// Starts and stops the service. Its thread runs service_loop.cpp.
#include "interpose/service/service.hpp"

#include "allocator/base/log.hpp"
#include "allocator/base/thread.hpp"
#include "interpose/process/descriptors.hpp"
#include "interpose/process/process.hpp"
#include "interpose/process/ranked_mutex.hpp"
#include "interpose/service/live.hpp"
#include "interpose/service/service_loop.hpp"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <string>

#include <pthread.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

namespace custash::service {
namespace {

// The driver needs room on this stack.
constexpr std::size_t kStack = std::size_t{1} << 20U;

constinit RankedMutex starting{HookRank::ServiceStart};
// Order: released after the loop is made. `pauses` and `working` are sequentially consistent,
// as each side stores its own before it loads the other's.
constinit std::atomic<EventLoop*> running{nullptr};
constinit std::atomic<bool> tried{false};  // set with the first memory of the driver
constinit std::atomic<unsigned> pauses{0};
constinit std::atomic<bool> working{false};

decltype(Driver::mem_create) real_create = nullptr;
decltype(Driver::mem_alloc) real_alloc = nullptr;

void nap() {
  constexpr timespec kNap{0, 200'000};
  nanosleep(&kNap, nullptr);
}

void* run(void* loop) {
  live::open(static_cast<EventLoop*>(loop)->who());
  static_cast<EventLoop*>(loop)->run();
  return nullptr;
}

EventLoop* make() {
  std::array<std::uint64_t, 3> drawn{};
  if (getrandom(drawn.data(), sizeof drawn, GRND_NONBLOCK) != sizeof drawn) return nullptr;
  auto* const loop = new EventLoop({getpid(), drawn[0]}, {drawn[1], drawn[2]});
  if (loop->listen() && start_thread(run, loop)) return loop;
  loop->give_up();
  delete loop;
  return nullptr;
}

void memory_was_had() {
  if (tried.load(std::memory_order_relaxed) || tried.exchange(true)) return;
  start();
}

CUresult create(CUmemGenericAllocationHandle* out,
                size_t bytes,
                const CUmemAllocationProp* what,
                unsigned long long flags) {
  const CUresult result = real_create(out, bytes, what, flags);
  if (result == CUDA_SUCCESS) memory_was_had();
  return result;
}

CUresult alloc(CUdeviceptr* out, size_t bytes) {
  const CUresult result = real_alloc(out, bytes);
  if (result == CUDA_SUCCESS) memory_was_had();
  return result;
}

}  // namespace

bool start_thread(void* (*what)(void* of), void* of) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  if (pthread_sigmask(SIG_BLOCK, &all, &before) != 0) return false;
  pthread_attr_t how;
  pthread_attr_init(&how);
  pthread_attr_setdetachstate(&how, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&how, kStack);
  pthread_t thread{};
  int error = pthread_create(&thread, &how, what, of);
  if (error == EINVAL) {  // thread-local memory alone is more than that
    pthread_attr_destroy(&how);
    pthread_attr_init(&how);
    pthread_attr_setdetachstate(&how, PTHREAD_CREATE_DETACHED);
    error = pthread_create(&thread, &how, what, of);
  }
  pthread_attr_destroy(&how);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return error == 0;
}

bool start() noexcept {
  if (running.load(std::memory_order_acquire) != nullptr) return true;
  if (process::state() != process::State::Running) return false;
  const CancellationOff off;
  const int error = errno;
  bool started = false;
  try {
    const RankedLock lock(starting);
    if (running.load() == nullptr) running.store(make(), std::memory_order_release);
    started = running.load() != nullptr;
  } catch (...) {  // no memory for it
  }
  errno = error;
  if (!started)
    log(LogLevel::Warn, "event=service_failed reason=\"no socket or thread for it\"");
  return started;
}

void start_with_memory(Driver& driver) {
  real_create = driver.mem_create;
  real_alloc = driver.mem_alloc;
  if (real_create != nullptr) driver.mem_create = create;
  driver.mem_alloc = alloc;
}

void memory_was_had(const Allocator& core) {
  if (core.config().control || core.config().neighbours) memory_was_had();
}

Identity identity() noexcept {
  EventLoop* const loop = running.load(std::memory_order_acquire);
  return loop == nullptr ? Identity{} : loop->who();
}

Secret secret() noexcept {
  EventLoop* const loop = running.load(std::memory_order_acquire);
  return loop == nullptr ? Secret{} : loop->secret();
}

void stop() noexcept {
  live::close();
  constexpr int kNaps = 500;
  for (int i = 0; i < kNaps && working.load(); ++i)
    nap();
}

void after_fork_in_child() noexcept {
  descriptors().close_all();
  live::after_fork_in_child();
  running.store(nullptr);
  starting.reset_after_fork();  // its holder, if there is one, is the parent's
}

bool paused() noexcept {
  return pauses.load() != 0;
}

Pause::Pause() noexcept {
  pauses.fetch_add(1);
  // A verb that waits for the device gives up.
  while (working.load())
    nap();
}

Pause::~Pause() {
  pauses.fetch_sub(1);
}

bool VerbScope::enter() {
  constexpr int kNaps = 25'000;  // 5 s: the end of a context may wait for its work
  for (int i = 0; i < kNaps; ++i) {
    working.store(true);
    if (pauses.load() == 0) return entered_ = true;
    working.store(false);
    nap();
  }
  return false;
}

VerbScope::~VerbScope() {
  if (entered_) working.store(false);
}

}  // namespace custash::service

custash::Descriptors& custash::descriptors() noexcept {
  static constinit Descriptors all;
  return all;
}
