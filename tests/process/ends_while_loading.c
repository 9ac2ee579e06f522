/* SPDX-License-Identifier: MIT
 * A library whose constructor gets memory, and ends a context while it holds the loader's lock:
 * after CUSTASH_TEST_NAP milliseconds, in which others may ask the process. */
#define _GNU_SOURCE
#include "tests/process/driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static struct driver cu;

__attribute__((constructor)) static void use(void) {
  void* context = NULL;
  device_address memory = 0;
  const char* const nap = getenv("CUSTASH_TEST_NAP");
  if (nap == NULL || !find_driver(&cu, "open")) exit(4);
  if (cu.cuInit(0) != 0 || cu.cuCtxCreate_v2(&context, 0, 0) != 0 ||
      cu.cuMemAlloc_v2(&memory, 1000) != 0)
    exit(5);
  usleep((unsigned)atoi(nap) * 1000);
  printf("%d\n", cu.cuCtxDestroy_v2(context));
}
