/* SPDX-License-Identifier: MIT */
#include "tests/process/driver.h"

#define _GNU_SOURCE
#include "interpose/api/custash.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef LINKED
#define DECLARE(name, params) int name params;
DRIVER_CALLS(DECLARE)
#endif

static void* by_proc_address(void* library, const char* symbol) {
  int (*get)(const char*, void**, int, uint64_t, void*);
  *(void**)&get = dlsym(library, "cuGetProcAddress_v2");
  char name[64];
  void* found = NULL;
  strncpy(name, symbol, sizeof name - 1);
  name[sizeof name - 1] = 0;
  char* version = strstr(name, "_v2");
  if (version != NULL) *version = 0;
  return get != NULL && get(name, &found, 12000, 0, NULL) == 0 ? found : NULL;
}

static void* look_up(const char* how, void* library, const char* name) {
  if (strcmp(how, "open") == 0) return dlsym(library, name);
  if (strcmp(how, "proc") == 0) return by_proc_address(library, name);
  if (strcmp(how, "next") == 0) return dlsym(RTLD_NEXT, name);
  return strcmp(how, "default") == 0 ? dlsym(RTLD_DEFAULT, name) : NULL;
}

int find_driver(struct driver* driver, const char* how) {
#ifdef LINKED
  if (strcmp(how, "linked") == 0) {
#define TAKE(name, params) driver->name = name;
    DRIVER_CALLS(TAKE)
#undef TAKE
    return 1;
  }
#endif
  const int opens = strcmp(how, "open") == 0 || strcmp(how, "proc") == 0;
  void* library = opens ? dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL) : NULL;
  if (opens && library == NULL) return 0;
#define FIND(name, params)                               \
  *(void**)&driver->name = look_up(how, library, #name); \
  if (driver->name == NULL) return 0;
  DRIVER_CALLS(FIND)
#undef FIND
  return 1;
}

void must(int code, const char* what) {
  if (code == 0) return;
  fprintf(stderr, "%s: %d\n", what, code);
  exit(1);
}

void* start_driver(struct driver* driver) {
  void* context = NULL;
  if (!find_driver(driver, "open")) exit(3);
  MUST(driver->cuInit(0));
  MUST(driver->cuDevicePrimaryCtxRetain(&context, 0));
  MUST(driver->cuCtxSetCurrent(context));
  return context;
}

long long served(void) {
  custash_status_t (*stats)(int, custash_stat_t*, size_t*);
  *(void**)&stats = dlsym(RTLD_DEFAULT, "custash_memory_stats");
  if (stats == NULL) return -1;
  custash_stat_t values[200];
  size_t count = 200;
  if (stats(0, values, &count) != CUSTASH_SUCCESS) return -2;
  for (size_t i = 0; i < count; ++i)
    if (strcmp(values[i].name, "allocation.all.allocated") == 0) return values[i].value;
  return -3;
}
