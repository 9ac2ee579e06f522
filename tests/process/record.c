/* SPDX-License-Identifier: MIT
 * A program to be recorded. Arguments: what to do. Says what a recording of it must hold, one
 * event a line (op, size, stream), where that is known. */
#define _GNU_SOURCE
#include "interpose/api/custash.h"
#include "tests/process/driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct driver cu;
static void* context;

static device_address alloc(size_t bytes) {
  device_address out = 0;
  MUST(cu.cuMemAlloc_v2(&out, bytes));
  return out;
}

/* Each kind of call once, and calls that fail. */
static void every_kind(void) {
  device_address a = alloc(1000), b = 0;
  size_t pitch = 0;
  void *host = NULL, *stream = NULL;
  puts("a 1000 -");
  MUST(cu.cuStreamCreate(&stream, 1));
  MUST(cu.cuMemAllocAsync(&b, 3 << 20, stream));
  puts("a 3145728 1");
  MUST(cu.cuMemHostAlloc(&host, 5000, 0));
  puts("h 5000 -");
  if (cu.cuMemFree_v2(a + 512) == 0 || cu.cuMemAlloc_v2(&(device_address){0}, 0) == 0) exit(1);
  MUST(cu.cuMemFree_v2(a));
  puts("f 1000 -");
  if (cu.cuMemFree_v2(a) == 0) exit(1);
  MUST(cu.cuMemFree_v2(0));
  MUST(cu.cuMemAllocPitch_v2(&a, &pitch, 100, 10, 4));
  puts("a 5120 -");
  MUST(cu.cuMemFreeAsync(b, stream));
  puts("f 3145728 1");
  MUST(cu.cuMemAllocAsync(&b, 700, NULL));
  puts("a 700 0");
  MUST(cu.cuMemFreeHost(host));
  puts("g 5000 -");
  MUST(cu.cuMemFree_v2(b));
  puts("f 700 -");
}

/* custash.h's own calls. */
static void api(void) {
  custash_status_t (*malloc_on)(void**, int, size_t, custash_stream_t);
  custash_status_t (*free_plain)(void*), (*free_on)(void*, custash_stream_t);
  custash_status_t (*malloc_host)(void**, size_t, unsigned), (*free_host)(void*);
  *(void**)&malloc_on = dlsym(RTLD_DEFAULT, "custash_malloc_async");
  *(void**)&free_plain = dlsym(RTLD_DEFAULT, "custash_free");
  *(void**)&free_on = dlsym(RTLD_DEFAULT, "custash_free_async");
  *(void**)&malloc_host = dlsym(RTLD_DEFAULT, "custash_host_malloc");
  *(void**)&free_host = dlsym(RTLD_DEFAULT, "custash_host_free");
  void *a = NULL, *b = NULL, *host = NULL;
  MUST(malloc_on(&a, 0, 1000, NULL));
  puts("a 1000 0");
  MUST(malloc_host(&host, 70000, 0));
  puts("h 70000 -");
  MUST(malloc_on(&b, 0, 9000, NULL));
  puts("a 9000 0");
  MUST(free_plain(a));
  puts("f 1000 -");
  MUST(free_host(host));
  puts("g 70000 -");
  MUST(free_on(b, NULL));
  puts("f 9000 0");
}

enum { kThreads = 4, kRounds = 500, kHeld = 8 };

static void* churn(void* argument) {
  device_address held[kHeld] = {0};
  MUST(cu.cuCtxSetCurrent(context));
  unsigned random = 1 + (unsigned)(size_t)argument;
  for (int i = 0; i < kRounds; ++i) {
    random = random * 1103515245 + 12345;
    const int at = random >> 16 & (kHeld - 1);
    if (held[at] != 0) MUST(cu.cuMemFree_v2(held[at]));
    held[at] = alloc(1 + (random >> 8) % 100000);
  }
  for (int i = 0; i < kHeld; ++i)
    if (held[i] != 0) MUST(cu.cuMemFree_v2(held[i]));
  return NULL;
}

static void threads(void) {
  pthread_t each[kThreads];
  for (size_t i = 0; i < kThreads; ++i)
    pthread_create(&each[i], NULL, churn, (void*)i);
  for (size_t i = 0; i < kThreads; ++i)
    pthread_join(each[i], NULL);
}

/* More than the recorder writes to a stretch of its file. */
static void many(void) {
  for (int i = 0; i < 60000; ++i)
    MUST(cu.cuMemFree_v2(alloc(4096)));
}

static void forked(void) {
  const pid_t child = fork();
  context = start_driver(&cu);
  alloc(child == 0 ? 2000 : 1000);
  if (child == 0) exit(0);
  waitpid(child, NULL, 0);
}

/* The child goes on until its standard input ends. */
static void outlived(void) {
  int ready[2];
  char byte = 0;
  if (pipe(ready) != 0) exit(1);
  if (fork() != 0) {
    close(ready[1]);
    if (read(ready[0], &byte, 1) != 1) exit(1);
    return;
  }
  context = start_driver(&cu);
  alloc(1000);
  if (write(ready[1], &byte, 1) != 1) exit(1);
  while (read(STDIN_FILENO, &byte, 1) > 0) {
  }
  alloc(2000);
}

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "";
  if (strcmp(what, "fork") == 0) return forked(), 0;
  if (strcmp(what, "outlived") == 0) return outlived(), 0;
  context = start_driver(&cu);
  if (strcmp(what, "kinds") == 0) every_kind();
  if (strcmp(what, "api") == 0) api();
  if (strcmp(what, "threads") == 0) threads();
  if (strcmp(what, "many") == 0) many();
  if (strcmp(what, "killed") == 0) alloc(1000), raise(SIGKILL);
  if (strcmp(what, "quick") == 0) alloc(1000), _exit(5);
  if (strcmp(what, "exec") == 0) alloc(1000), execl(argv[0], argv[0], "quick", (char*)NULL);
  if (strcmp(what, "fork_after") == 0) {
    alloc(1000);
    const pid_t child = fork();
    if (child == 0) {
      device_address out = 0;
      cu.cuMemAlloc_v2(&out, 2000);
      exit(0);
    }
    waitpid(child, NULL, 0);
    alloc(3000);
  }
  return 0;
}
