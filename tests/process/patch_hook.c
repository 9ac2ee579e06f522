/* SPDX-License-Identifier: MIT
 * As UCX's ucm in its mode "bistro": once the driver is there, the code of its cuMemAlloc and
 * cuMemCreate is patched, so that every way to them ends here, those of custash, too; from
 * inside the hook the driver is asked, through whatever stands in front of it, and memory is
 * taken and given back. */
#define _GNU_SOURCE
#include "oldest_glibc.h"
#include "patched.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

typedef unsigned long long device_address;
typedef int alloc_call(device_address*, size_t);
typedef int create_call(void*, size_t, const void*, unsigned long long);

static struct patch alloc_patch, create_patch;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static __thread int inside;
static int events;

static void set_up(struct patch* patch, void* library, const char* name, void* hook) {
  void* found = dlsym(RTLD_DEFAULT, "custash_version") == NULL ? dlsym(library, name) : NULL;
  if (found == NULL) { /* past whoever stands in front: by the table of the object itself */
    void* (*plain)(void*, const char*) = NULL;
    *(void**)&plain = dlvsym(RTLD_NEXT, "dlsym", OLDEST_GLIBC);
    found = plain(library, name);
  }
  patch_function(patch, found, hook);
}

static void event(void) {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  int (*info)(size_t*, size_t*) = NULL;
  alloc_call* alloc = NULL;
  int (*give)(device_address) = NULL;
  size_t free_bytes = 0, total = 0;
  device_address mine = 0;
  *(void**)&info = dlsym(library, "cuMemGetInfo_v2");
  *(void**)&alloc = dlsym(library, "cuMemAlloc_v2");
  *(void**)&give = dlsym(library, "cuMemFree_v2");
  if (info(&free_bytes, &total) != 0 || alloc(&mine, 700) != 0 || give(mine) != 0)
    printf("refused inside\n");
  __atomic_fetch_add(&events, 1, __ATOMIC_RELAXED);
}

static int hooked_alloc(device_address* out, size_t bytes) {
  pthread_mutex_lock(&lock);
  write_code(&alloc_patch, alloc_patch.old);
  const int code = ((alloc_call*)alloc_patch.at)(out, bytes);
  write_code(&alloc_patch, alloc_patch.jump);
  pthread_mutex_unlock(&lock);
  if (inside++ == 0) event();
  --inside;
  return code;
}

static int hooked_create(void* out, size_t bytes, const void* what, unsigned long long flags) {
  pthread_mutex_lock(&lock);
  write_code(&create_patch, create_patch.old);
  const int code = ((create_call*)create_patch.at)(out, bytes, what, flags);
  write_code(&create_patch, create_patch.jump);
  pthread_mutex_unlock(&lock);
  if (inside++ == 0) event();
  --inside;
  return code;
}

__attribute__((constructor)) static void patch_the_driver(void) {
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == NULL) return;
  set_up(&alloc_patch, library, "cuMemAlloc_v2", (void*)hooked_alloc);
  set_up(&create_patch, library, "cuMemCreate", (void*)hooked_create);
}

__attribute__((destructor)) static void tell(void) {
  if (events != 0) fprintf(stderr, "events %d\n", events);
}
