/* SPDX-License-Identifier: MIT
 * Built under names that begin as the runtime's and the driver's, and holds neither. */
int not_cuda(void);

int not_cuda(void) {
  return 1;
}
