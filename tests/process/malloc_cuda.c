/* SPDX-License-Identifier: MIT
 * A preloaded library whose malloc uses CUDA once a context is current: not from inside the
 * driver, which no program could do, but from inside all else that allocates host memory,
 * custash's own bookkeeping under its locks included. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

typedef unsigned long long device_address;

static int (*current)(void**);
static int (*info)(size_t*, size_t*);
static int (*alloc)(device_address*, size_t);
static int (*give)(device_address);
static __thread int inside;
static int calls, refused;

void* malloc(size_t bytes);

static void look_up(void) {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (library == NULL) return;
  *(void**)&info = dlsym(library, "cuMemGetInfo_v2");
  *(void**)&alloc = dlsym(library, "cuMemAlloc_v2");
  *(void**)&give = dlsym(library, "cuMemFree_v2");
  *(void**)&current = dlsym(library, "cuCtxGetCurrent");
}

static int from(const void* caller, const char* library) {
  Dl_info info;
  return dladdr(caller, &info) != 0 && strstr(info.dli_fname, library) != NULL;
}

static void use_cuda(void) {
  void* context = NULL;
  size_t free_bytes = 0, total = 0;
  device_address mine = 0;
  if (current == NULL) look_up();
  if (current == NULL || current(&context) != 0 || context == NULL) return;
  if (++calls % 20 != 0) return; /* it maps and unmaps memory each time */
  if (info(&free_bytes, &total) != 0 || alloc(&mine, 300000) != 0 || give(mine) != 0) ++refused;
}

void* malloc(size_t bytes) {
  static void* (*next)(size_t);
  if (next == NULL) *(void**)&next = dlsym(RTLD_NEXT, "malloc");
  if (inside++ == 0 && next != NULL && from(__builtin_return_address(0), "libcustash"))
    use_cuda();
  --inside;
  return next(bytes);
}

__attribute__((destructor)) static void tell(void) {
  ++inside;
  if (calls != 0)
    fprintf(
        stderr, "malloc used CUDA %s, refused %d\n", calls > 200 ? "often" : "seldom", refused);
}
