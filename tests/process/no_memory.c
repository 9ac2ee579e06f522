/* SPDX-License-Identifier: MIT
 * A preloaded library that calls custash while malloc fails, so that custash throws and catches
 * an exception. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

#define SHOWN __attribute__((visibility("default")))

void* __libc_malloc(size_t bytes);
static int without_memory;

SHOWN void* malloc(size_t bytes);

SHOWN void* malloc(size_t bytes) {
  return without_memory ? NULL : __libc_malloc(bytes);
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
