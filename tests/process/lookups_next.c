/* SPDX-License-Identifier: MIT
 * The library whose name lookups_first.c wraps. */
int tick(void);
extern int lookups_next_is_linked;

int lookups_next_is_linked = 1;

int tick(void) {
  return 42;
}
