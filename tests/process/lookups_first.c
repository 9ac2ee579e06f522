/* SPDX-License-Identifier: MIT
 * A library that wraps a name of the next one, as malloc and MPI profilers do. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

int tick(void);
void* default_of_first(const char* name);
extern int lookups_next_is_linked;

int tick(void) {
  int (*next)(void) = (int (*)(void))dlsym(RTLD_NEXT, "tick");
  if (!lookups_next_is_linked) return -3;
  return next == NULL ? -1 : next == tick ? -2 : next();
}

void* default_of_first(const char* name) {
  return dlsym(RTLD_DEFAULT, name);
}
