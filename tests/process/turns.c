/* SPDX-License-Identifier: MIT
 * Captures, graphs, pools, peers and the ends of contexts, at the driver's door. Says the code
 * of each call; lines that begin with # differ between bare and preloaded. */
#define _GNU_SOURCE
#include "tests/process/driver.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define MORE_CALLS(X)                                                                   \
  X(cuStreamBeginCapture_v2, (void*, int))                                              \
  X(cuStreamBeginCaptureToGraph, (void*, void*, const void*, const void*, size_t, int)) \
  X(cuStreamEndCapture, (void*, void**))                                                \
  X(cuGraphCreate, (void**, unsigned))                                                  \
  X(cuGraphClone, (void**, void*))                                                      \
  X(cuGraphInstantiateWithFlags, (void**, void*, unsigned long long))                   \
  X(cuGraphLaunch, (void*, void*))                                                      \
  X(cuGraphDestroy, (void*))                                                            \
  X(cuGraphExecDestroy, (void*))                                                        \
  X(cuMemcpyDtoHAsync_v2, (void*, device_address, size_t, void*))                       \
  X(cuMemcpyAsync, (device_address, device_address, size_t, void*))                     \
  X(cuCtxCreate_v2, (void**, unsigned, int))                                            \
  X(cuCtxDestroy_v2, (void*))                                                           \
  X(cuCtxEnablePeerAccess, (void*, unsigned))                                           \
  X(cuCtxDisablePeerAccess, (void*))                                                    \
  X(cuDevicePrimaryCtxReset_v2, (int))                                                  \
  X(cuDeviceGetDefaultMemPool, (void**, int))                                           \
  X(cuMemPoolSetAttribute, (void*, int, void*))

static struct driver cu;

static struct {
#define MEMBER(name, params) int(*name) params;
  MORE_CALLS(MEMBER)
#undef MEMBER
} more;

#define SAY(call) printf("%d %s\n", (call), #call)

static int find_more(void) {
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
#define FIND(name, params)                     \
  *(void**)&more.name = dlsym(library, #name); \
  if (more.name == NULL) printf("no %s\n", #name);
  MORE_CALLS(FIND)
#undef FIND
  return library != NULL;
}

static void captures(void* stream) {
  void *graph = NULL, *executable = NULL, *copy = NULL, *own = NULL;
  device_address a = 0;
  SAY(cu.cuMemAlloc_v2(&a, 4096));
  SAY(more.cuStreamEndCapture(stream, &graph)); /* none is under way */
  SAY(more.cuStreamBeginCapture_v2(stream, 2)); /* relaxed */
  SAY(more.cuStreamBeginCapture_v2(stream, 2)); /* twice */
  SAY(cu.cuMemsetD8Async(a, 5, 4096, stream));
  SAY(more.cuStreamEndCapture(stream, &graph));
  SAY(more.cuGraphClone(&copy, graph));
  SAY(more.cuGraphInstantiateWithFlags(&executable, graph, 0));
  SAY(more.cuGraphLaunch(executable, stream));
  SAY(cu.cuStreamSynchronize(stream));
  SAY(more.cuGraphDestroy(copy));
  SAY(more.cuGraphDestroy(graph));
  SAY(more.cuGraphExecDestroy(executable));
  SAY(more.cuGraphCreate(&own, 0));
  SAY(more.cuStreamBeginCaptureToGraph(stream, own, NULL, NULL, 0, 2));
  SAY(cu.cuMemsetD8Async(a, 6, 4096, stream));
  SAY(more.cuStreamEndCapture(stream, &graph));
  SAY(graph == own);
  SAY(more.cuGraphDestroy(own));
  SAY(cu.cuMemFree_v2(a));
}

/* The host reads right after the free, which on the bare driver waits. */
static void host_reads(void* stream) {
  unsigned char read[4096];
  device_address a = 0;
  int wrong = 0;
  for (int i = 0; i < 20; ++i) {
    memset(read, 0, sizeof read);
    wrong += cu.cuMemAlloc_v2(&a, sizeof read) != 0;
    wrong += cu.cuMemsetD8Async(a, (unsigned char)(i + 1), sizeof read, stream) != 0;
    if (i % 2)
      wrong += more.cuMemcpyDtoHAsync_v2(read, a, sizeof read, stream) != 0;
    else
      wrong += more.cuMemcpyAsync((device_address)(uintptr_t)read, a, sizeof read, stream) != 0;
    wrong += cu.cuMemFree_v2(a) != 0;
    wrong += read[0] != i + 1 || read[4095] != i + 1;
  }
  SAY(wrong);
}

static void contexts(void) {
  void *context = NULL, *peer = NULL;
  device_address a = 0, b = 0;
  SAY(cu.cuDevicePrimaryCtxRetain(&peer, 1));
  SAY(more.cuCtxEnablePeerAccess(peer, 0));
  SAY(more.cuCtxEnablePeerAccess(peer, 0));
  SAY(more.cuCtxDisablePeerAccess(peer));
  SAY(more.cuCtxCreate_v2(&context, 0, 0));
  SAY(cu.cuMemAlloc_v2(&a, 100000));
  SAY(cu.cuMemAlloc_v2(&b, 100000));
  SAY(cu.cuMemFree_v2(b));
  SAY(more.cuCtxDestroy_v2(context));
  SAY(cu.cuDevicePrimaryCtxRetain(&context, 0));
  SAY(cu.cuCtxSetCurrent(context));
  SAY(cu.cuMemFree_v2(a)); /* died with its context */
  SAY(cu.cuMemAlloc_v2(&a, 100000));
  SAY(more.cuDevicePrimaryCtxReset_v2(0));
  SAY(cu.cuDevicePrimaryCtxRetain(&context, 0));
  SAY(cu.cuCtxSetCurrent(context));
  SAY(cu.cuMemAlloc_v2(&b, 100000));
  SAY(cu.cuMemFree_v2(b));
}

/* A program that sets its default pool up gets it. */
static void pools(void* stream) {
  void* pool = NULL;
  device_address a = 0;
  unsigned long long threshold = ~0ULL;
  int off = 0;
  SAY(more.cuDeviceGetDefaultMemPool(&pool, 0));
  SAY(more.cuMemPoolSetAttribute(pool, 4, &threshold)); /* release threshold: ours still */
  long long before = served();
  SAY(cu.cuMemAllocAsync(&a, 4096, stream));
  printf("# threshold %d\n", served() != before);
  SAY(cu.cuMemFreeAsync(a, stream));
  SAY(more.cuMemPoolSetAttribute(
      pool, 2, &off)); /* opportunistic reuse: the driver's from now on */
  before = served();
  SAY(cu.cuMemAllocAsync(&a, 4096, stream));
  printf("# attribute %d\n", served() != before);
  SAY(cu.cuMemFreeAsync(a, stream));
}

int main(void) {
  void *context = NULL, *stream = NULL;
  if (!find_driver(&cu, "open") || !find_more()) return 1;
  SAY(cu.cuInit(0));
  SAY(cu.cuDevicePrimaryCtxRetain(&context, 0));
  SAY(cu.cuCtxSetCurrent(context));
  SAY(cu.cuStreamCreate(&stream, 1));
  captures(stream);
  host_reads(stream);
  pools(stream);
  contexts();
  return 0;
}
