/* SPDX-License-Identifier: MIT
 * The driver entries that the test programs call, and the ways to come by them. The names are
 * the exported ones, so that cuda.h's renaming does not matter. */
#pragma once

#include <stddef.h>

typedef unsigned long long device_address;

#define DRIVER_CALLS(X)                                                       \
  X(cuInit, (unsigned))                                                       \
  X(cuDevicePrimaryCtxRetain, (void**, int))                                  \
  X(cuDevicePrimaryCtxRelease_v2, (int))                                      \
  X(cuDevicePrimaryCtxReset_v2, (int))                                        \
  X(cuCtxCreate_v2, (void**, unsigned, int))                                  \
  X(cuCtxDestroy_v2, (void*))                                                 \
  X(cuCtxSetCurrent, (void*))                                                 \
  X(cuCtxSynchronize, (void))                                                 \
  X(cuMemAlloc_v2, (device_address*, size_t))                                 \
  X(cuMemAllocPitch_v2, (device_address*, size_t*, size_t, size_t, unsigned)) \
  X(cuMemFree_v2, (device_address))                                           \
  X(cuMemAllocAsync, (device_address*, size_t, void*))                        \
  X(cuMemFreeAsync, (device_address, void*))                                  \
  X(cuMemHostAlloc, (void**, size_t, unsigned))                               \
  X(cuMemFreeHost, (void*))                                                   \
  X(cuMemGetInfo_v2, (size_t*, size_t*))                                      \
  X(cuMemGetAddressRange_v2, (device_address*, size_t*, device_address))      \
  X(cuPointerGetAttribute, (void*, int, device_address))                      \
  X(cuIpcGetMemHandle, (void*, device_address))                               \
  X(cuMemsetD8Async, (device_address, unsigned char, size_t, void*))          \
  X(cuMemcpyDtoHAsync_v2, (void*, device_address, size_t, void*))             \
  X(cuLaunchHostFunc, (void*, void (*)(void*), void*))                        \
  X(cuStreamCreate, (void**, unsigned))                                       \
  X(cuStreamSynchronize, (void*))                                             \
  X(cuStreamDestroy_v2, (void*))

struct driver {
#define MEMBER(name, params) int(*name) params;
  DRIVER_CALLS(MEMBER)
#undef MEMBER
};

#ifdef __cplusplus
extern "C" {
#endif

/* how: "open" (dlopen, dlsym), "proc" (cuGetProcAddress_v2), "next" (RTLD_NEXT, RTLD_DEFAULT;
 * needs a program that is linked), "linked" (only in such a program). 0: no such way here. */
int find_driver(struct driver* driver, const char* how);

/* Finds the driver by "open" and makes a device's primary context current, which it returns. A
 * program that cannot ends: with 3 without a driver, else with 1. */
void* start_driver(struct driver* driver);

/* A call that fails ends the program with 1, after a line on standard error. */
void must(int code, const char* what);
#define MUST(call) must(call, #call)

/* Allocations that custash has served on device 0; -1 where it is not there. */
long long served(void);

#ifdef __cplusplus
}
#endif
