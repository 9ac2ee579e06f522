/* SPDX-License-Identifier: MIT
 * cancels WHAT: a thread that is cancelled while it calls the driver. "allocation": more memory
 * than there is; "work": memory that running work holds; "copy": a copy to pageable memory,
 * which waits for work. The process must go on. Bare and preloaded, it says the same. */
#define _GNU_SOURCE
#include "tests/process/driver.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct driver cu;
static void* context;
static device_address held;
static const size_t kMost = 48u << 20; /* of a device of 64 MiB */
static atomic_int in_calls;

static void* allocate(void* unused) {
  (void)unused;
  MUST(cu.cuCtxSetCurrent(context));
  for (;;) {
    device_address block = 0;
    atomic_store(&in_calls, 1);
    if (cu.cuMemAlloc_v2(&block, kMost) == 0) MUST(cu.cuMemFree_v2(block));
    pthread_testcancel();
  }
  return NULL;
}

static void sleep_it(void* unused) {
  (void)unused;
  usleep(400000);
}

/* To pageable memory: the driver waits for the work before. */
static void* copy(void* stream) {
  static char host[1 << 16];
  MUST(cu.cuCtxSetCurrent(context));
  for (;;) {
    for (int i = 0; i < 3; ++i)
      MUST(cu.cuLaunchHostFunc(stream, sleep_it, NULL));
    atomic_store(&in_calls, 1);
    MUST(cu.cuMemcpyDtoHAsync_v2(host, held, sizeof host, stream));
    pthread_testcancel();
  }
  return NULL;
}

int main(int count, char** words) {
  const char* const what = count > 1 ? words[1] : "";
  device_address block = 0;
  void *stream = NULL, *result = NULL;
  pthread_t thread;
  context = start_driver(&cu);
  MUST(cu.cuMemAlloc_v2(&held, kMost));
  MUST(cu.cuStreamCreate(&stream, 1));
  if (strcmp(what, "work") == 0) {
    MUST(cu.cuMemsetD8Async(held, 1, kMost, stream));
    for (int i = 0; i < 3; ++i)
      MUST(cu.cuLaunchHostFunc(stream, sleep_it, NULL));
    MUST(cu.cuMemFreeAsync(held, stream));
    held = 0;
  }
  if (pthread_create(&thread, NULL, strcmp(what, "copy") == 0 ? copy : allocate, stream) != 0)
    return 1;
  while (!atomic_load(&in_calls))
    usleep(1000);
  usleep(100000);
  pthread_cancel(thread);
  pthread_join(thread, &result);
  if (result != PTHREAD_CANCELED) return 2;
  MUST(cu.cuCtxSynchronize());
  if (held != 0) MUST(cu.cuMemFree_v2(held));
  MUST(cu.cuMemAlloc_v2(&block, kMost));
  MUST(cu.cuMemFree_v2(block));
  puts("cancelled, and the process goes on");
  return 0;
}
