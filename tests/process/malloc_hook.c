/* SPDX-License-Identifier: MIT
 * Another preloaded library: it finds the malloc behind it at the first use, inside malloc,
 * which is before any constructor. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

void* malloc(size_t bytes);

void* malloc(size_t bytes) {
  static void* (*next)(size_t);
  if (next == NULL) *(void**)&next = dlsym(RTLD_NEXT, "malloc");
  return next(bytes);
}
