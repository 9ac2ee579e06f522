/* SPDX-License-Identifier: MIT
 * Programs that the doctor reads and nobody runs: work and frees, with and without (WAITS) a
 * call that waits. */
int cuMemFree_v2(unsigned long long address);
int cuMemcpyHtoDAsync_v2(unsigned long long target,
                         const void* source,
                         unsigned long bytes,
                         void* stream);
int cuStreamSynchronize(void* stream);

int main(void) {
  int code = cuMemcpyHtoDAsync_v2(0, "", 1, 0) + cuMemFree_v2(0);
#ifdef WAITS
  code += cuStreamSynchronize(0);
#endif
  return code;
}
