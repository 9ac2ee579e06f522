/* SPDX-License-Identifier: MIT
 * A library whose constructor gets memory, and ends a context while it holds the loader's lock:
 * after CUSTASH_TEST_NAP milliseconds, in which others may ask the process. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

typedef unsigned long long device_address;

static void* driver;

static void* found(const char* name) {
  void* const call = dlsym(driver, name);
  if (call == NULL) exit(4);
  return call;
}

__attribute__((constructor)) static void use(void) {
  int (*init)(unsigned);
  int (*create)(void**, unsigned, int);
  int (*alloc)(device_address*, size_t);
  int (*destroy)(void*);
  void* context = NULL;
  device_address memory = 0;
  const char* const nap = getenv("CUSTASH_TEST_NAP");
  driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == NULL || nap == NULL) exit(4);
  *(void**)&init = found("cuInit");
  *(void**)&create = found("cuCtxCreate_v2");
  *(void**)&alloc = found("cuMemAlloc_v2");
  *(void**)&destroy = found("cuCtxDestroy_v2");
  if (init(0) != 0 || create(&context, 0, 0) != 0 || alloc(&memory, 1000) != 0) exit(5);
  usleep((unsigned)atoi(nap) * 1000);
  printf("%d\n", destroy(context));
}
