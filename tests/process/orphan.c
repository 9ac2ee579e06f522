/* SPDX-License-Identifier: MIT
 * Calls cudaMalloc where there is no runtime: a name that only the preload library has. */
#include <stdio.h>

extern int cudaMalloc(void**, unsigned long) __attribute__((weak));
extern int cudaFree(void*) __attribute__((weak));

int main(void) {
  void* a = NULL;
  if (cudaMalloc == NULL) {
    printf("none\n");
    return 0;
  }
  printf("%d %d\n", cudaMalloc(&a, 512), cudaFree(NULL));
  return 0;
}
