/* SPDX-License-Identifier: MIT
 * Arguments: how the driver is found. With PLUGIN it is a library that plugin_host opens. Says
 * the code of each call, in order; what differs between bare and preloaded, how many
 * allocations custash served, stands on lines that begin with #. */
#include "tests/process/driver.h"

#include <stdio.h>
#include <string.h>

static struct driver cu;

#define SAY(call) printf("%d %s\n", (call), #call)

static void plain(void) {
  device_address a = 0, b = 0, base = 0;
  size_t size = 0, before = 0, after = 0, total = 0;
  char handle[64];
  SAY(cu.cuMemAlloc_v2(&a, 0));
  SAY(cu.cuMemAlloc_v2(NULL, 512));
  SAY(cu.cuMemFree_v2(0));
  SAY(cu.cuMemGetInfo_v2(&before, &total));
  SAY(cu.cuMemGetInfo_v2(NULL, &total));
  SAY(cu.cuMemGetInfo_v2(&before, NULL));
  SAY(cu.cuMemAlloc_v2(&a, 5000));
  SAY(cu.cuMemAlloc_v2(&b, 3 << 20));
  SAY(a % 512 == 0 && b % 512 == 0 && a != b);
  SAY(cu.cuMemsetD8Async(a, 7, 5000, NULL));
  SAY(cu.cuMemGetAddressRange_v2(&base, &size, a + 100));
  SAY(base == a && size == 5000);
  SAY(cu.cuMemGetAddressRange_v2(NULL, &size, b));
  SAY(size == 3 << 20);
  SAY(cu.cuPointerGetAttribute(&base, 11, a + 4999)); /* RANGE_START_ADDR */
  SAY(base == a);
  SAY(cu.cuPointerGetAttribute(&size, 12, a + 1)); /* RANGE_SIZE */
  SAY(size == 5000);
  SAY(cu.cuMemFree_v2(a + 8));
  SAY(cu.cuMemFree_v2(a));
  SAY(cu.cuMemFree_v2(a));
  SAY(cu.cuMemGetAddressRange_v2(&base, &size, a));
  SAY(cu.cuPointerGetAttribute(&base, 11, a));
  SAY(cu.cuIpcGetMemHandle(handle, a));
  SAY(cu.cuMemFree_v2(b));
  SAY(cu.cuCtxSynchronize());
  SAY(cu.cuMemGetInfo_v2(&after, &total));
  SAY(after <= total && after + (64 << 20) > before);
}

static void ordered(void) {
  device_address a = 0;
  void* stream = NULL;
  SAY(cu.cuStreamCreate(&stream, 1));
  SAY(cu.cuMemAllocAsync(&a, 0, stream));
  SAY(cu.cuMemAllocAsync(&a, 70000, stream));
  SAY(cu.cuMemsetD8Async(a, 1, 70000, stream));
  SAY(cu.cuMemFreeAsync(a, stream));
  SAY(cu.cuMemAllocAsync(&a, 70000, NULL));
  SAY(cu.cuMemFree_v2(a));
  SAY(cu.cuMemAlloc_v2(&a, 70000));
  printf("# %d cuMemFreeAsync of cuMemAlloc's memory\n", cu.cuMemFreeAsync(a, stream));
  SAY(cu.cuStreamSynchronize(stream));
  SAY(cu.cuStreamDestroy_v2(stream));
}

static int walk(const char* how) {
  void* context = NULL;
  device_address a = 0;
  if (!find_driver(&cu, how)) {
    printf("no driver this way\n");
    return 1;
  }
  SAY(cu.cuMemAlloc_v2(&a, 512)); /* before cuInit */
  SAY(cu.cuInit(0));
  SAY(cu.cuMemAlloc_v2(&a, 512)); /* without a context */
  SAY(cu.cuDevicePrimaryCtxRetain(&context, 0));
  SAY(cu.cuCtxSetCurrent(context));
  plain();
  ordered();
  printf("# %lld\n", served());
  SAY(cu.cuDevicePrimaryCtxRelease_v2(0));
  return 0;
}

#ifdef PLUGIN
void run_plugin(void);

void run_plugin(void) {
  walk("linked");
}
#else
int main(int argc, char** argv) {
  return walk(argc > 1 ? argv[1] : "");
}
#endif
