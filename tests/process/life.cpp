// SPDX-License-Identifier: MIT
// The turns of a process's life. Argument: which one. What is said must be the same bare and
// preloaded, but for the lines that begin with #.
#include "tests/process/driver.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

driver cu;
device_address late = 0;

void say(const char* what, int code) {
  std::printf("%s %d\n", what, code);
  std::fflush(stdout);
}

void start() {
  void* context = nullptr;
  if (!find_driver(&cu, "open")) std::exit(3);
  say("init", cu.cuInit(0));
  say("retain", cu.cuDevicePrimaryCtxRetain(&context, 0));
  say("current", cu.cuCtxSetCurrent(context));
}

// Built before cuInit, so destroyed after the driver's own exit handler.
struct Global {
  ~Global() {
    if (late != 0) say("late free", cu.cuMemFree_v2(late));
  }
} global;

void static_free() {
  start();
  say("alloc", cu.cuMemAlloc_v2(&late, 4096));
}

void exit_with_threads() {
  start();
  void* (*work)(void*) = [](void*) -> void* {
    void* context = nullptr;
    cu.cuDevicePrimaryCtxRetain(&context, 0);
    cu.cuCtxSetCurrent(context);
    for (;;) {
      device_address a = 0;
      if (cu.cuMemAlloc_v2(&a, 2048) != 0) return nullptr;
      cu.cuMemFree_v2(a);
    }
  };
  for (int i = 0; i < 3; ++i) {
    pthread_t thread;
    pthread_create(&thread, nullptr, work, nullptr);
    pthread_detach(thread);
  }
  usleep(20000);
}

pthread_barrier_t barrier;

void* first_use(void* failed) {
  void* context = nullptr;
  device_address a = 0;
  pthread_barrier_wait(&barrier);
  bool ok = cu.cuInit(0) == 0 && cu.cuDevicePrimaryCtxRetain(&context, 0) == 0 &&
            cu.cuCtxSetCurrent(context) == 0;
  for (int i = 0; ok && i < 50; ++i) {
    ok = cu.cuMemAlloc_v2(&a, 512U * (i + 1)) == 0 &&
         cu.cuMemsetD8Async(a, 1, 512, nullptr) == 0 && cu.cuMemFree_v2(a) == 0;
  }
  if (!ok) __atomic_fetch_add(static_cast<int*>(failed), 1, __ATOMIC_RELAXED);
  return nullptr;
}

void race() {
  constexpr int kThreads = 8;
  pthread_t threads[kThreads];
  int failed = 0;
  if (!find_driver(&cu, "open")) std::exit(3);
  pthread_barrier_init(&barrier, nullptr, kThreads);
  for (pthread_t& thread : threads)
    pthread_create(&thread, nullptr, first_use, &failed);
  for (const pthread_t thread : threads)
    pthread_join(thread, nullptr);
  say("failed", failed);
  std::printf("# %lld\n", served());
}

// The child may not use CUDA; it must get answers all the same, and must not hang.
void forked() {
  start();
  device_address a = 0;
  say("alloc", cu.cuMemAlloc_v2(&a, 4096));
  const pid_t child = fork();
  if (child == 0) {
    device_address b = 0;
    alarm(20);
    const int allocated = cu.cuMemAlloc_v2(&b, 4096);
    cu.cuMemFree_v2(a);
    cu.cuMemsetD8Async(a, 1, 512, nullptr);
    std::printf("# child alloc %d served %lld\n", allocated, served());
    std::exit(7);
  }
  int status = 0;
  waitpid(child, &status, 0);
  say("child exit", WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
  say("free", cu.cuMemFree_v2(a));
  std::printf("# parent served %lld\n", served());
}

}  // namespace

int main(int argc, char** argv) {
  const char* const which = argc > 1 ? argv[1] : "";
  if (std::strcmp(which, "static") == 0) static_free();
  if (std::strcmp(which, "threads") == 0) exit_with_threads();
  if (std::strcmp(which, "race") == 0) race();
  if (std::strcmp(which, "fork") == 0) forked();
  return 0;
}
