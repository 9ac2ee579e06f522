/* SPDX-License-Identifier: MIT
 * The negative control of cancel_watch: a library whose name begins as custash's does, and
 * whose wait is a cancellation point. */
#define _GNU_SOURCE
#include <time.h>

void rests(void);

void rests(void) {
  const struct timespec moment = {0, 1000};
  nanosleep(&moment, 0);
}
