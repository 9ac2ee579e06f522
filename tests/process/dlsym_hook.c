/* SPDX-License-Identifier: MIT
 * A preloaded tool that stands in front of dlsym, as limiters of device memory do, and counts
 * look-ups of the driver. */
#define _GNU_SOURCE
#include "oldest_glibc.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static int look_ups;

__attribute__((visibility("default"))) void* dlsym(void* restrict handle,
                                                   const char* restrict name) {
  static void* (*next)(void*, const char*);
  if (next == NULL) *(void**)&next = dlvsym(RTLD_NEXT, "dlsym", OLDEST_GLIBC);
  look_ups += strncmp(name, "cuGetProcAddress", 16) == 0;
  return next(handle, name);
}

__attribute__((destructor)) static void tell(void) {
  fprintf(stderr, "look-ups %d\n", look_ups);
}
