/* SPDX-License-Identifier: MIT
 * A preloaded library in which malloc fails: while custash is called, so that custash throws
 * and catches an exception, or on custash's own thread. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

#define SHOWN __attribute__((visibility("default")))

void* __libc_malloc(size_t bytes);
static int without_memory;
static _Thread_local int has_memory;
static int others_have_none;

SHOWN void* malloc(size_t bytes);

SHOWN void* malloc(size_t bytes) {
  const int none = without_memory || (others_have_none && !has_memory);
  return none ? NULL : __libc_malloc(bytes);
}

/* From then on malloc fails on every thread but the caller's. */
SHOWN void only_this_thread_has_memory(void);

SHOWN void only_this_thread_has_memory(void) {
  has_memory = 1;
  others_have_none = 1;
}

/* The status of custash_history_start. */
SHOWN int start_history_without_memory(void);

SHOWN int start_history_without_memory(void) {
  int (*start)(size_t, unsigned);
  *(void**)&start = dlsym(RTLD_DEFAULT, "custash_history_start");
  without_memory = 1;
  const int status = start(1000, 8);
  without_memory = 0;
  return status;
}
