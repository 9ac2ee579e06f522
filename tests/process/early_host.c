/* SPDX-License-Identifier: MIT
 * The program of early.c. */
void early(void);

int main(void) {
  early();
  return 0;
}
