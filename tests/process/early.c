/* SPDX-License-Identifier: MIT
 * A library whose constructor uses CUDA: it runs before the preload library's own. */
#include "tests/process/driver.h"

#include <stdio.h>

void early(void);

static struct driver cu;

__attribute__((constructor)) static void construct(void) {
  void* context = NULL;
  device_address a = 0;
  if (!find_driver(&cu, "open")) return;
  printf("%d\n",
         cu.cuInit(0) + cu.cuDevicePrimaryCtxRetain(&context, 0) + cu.cuCtxSetCurrent(context));
  printf("%d\n", cu.cuMemAlloc_v2(&a, 512));
  printf("# %lld\n", served());
}

void early(void) {
}
