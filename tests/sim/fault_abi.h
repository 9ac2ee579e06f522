/* SPDX-License-Identifier: MIT
 * How a whole program makes calls of the simulated libcuda.so.1 fail: it looks up
 * `custash_sim_faults` there. */
#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct custash_sim_fault_calls {
  /* The k-th call from now that can fail (1: the next) answers `code` and does nothing;
   * persistent: so do all after it. */
  void (*fail)(unsigned long long k, int code, int persistent);
  void (*clear)(void);
  unsigned long long (*given)(void); /* how many have failed so */
  size_t (*used)(int device);        /* bytes in use, as the driver counts them */
  size_t (*faults)(void);            /* accesses of work to memory that it may not touch */
} custash_sim_fault_calls;

const custash_sim_fault_calls* custash_sim_faults(void);

#ifdef __cplusplus
}
#endif
