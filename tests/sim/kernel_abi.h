/* SPDX-License-Identifier: MIT
 * How a program's kernels are made known to the simulated driver, which cannot run device code.
 * A shared library (named by CUSTASH_SIM_KERNELS, several separated by ':') exports the array
 * `custash_sim_kernels`, ended by an entry whose name is null. Device addresses are host
 * addresses in the simulator's data mode, so a body may read and write them directly. A kernel
 * without an entry is launched all the same: it takes the default time and touches nothing.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct custash_sim_launch {
  unsigned grid[3];
  unsigned block[3];
  void** args; /* as cuLaunchKernel's kernelParams; copied by the simulator at the launch, entry
                  by entry */
} custash_sim_launch;

typedef struct custash_sim_access {
  uint64_t address;
  uint64_t bytes;
  int write;
} custash_sim_access;

typedef struct custash_sim_kernel {
  const char* name;        /* mangled, as cuModuleGetFunction is asked for it */
  const size_t* arg_sizes; /* bytes of each parameter, ended by 0 */
  void (*body)(
      const custash_sim_launch* launch); /* what it does, run when the stream reaches it */
  uint64_t (*nanoseconds)(const custash_sim_launch*); /* how long it takes; null: the default */
  /* What it touches, for the race detector and for faults: writes at most `room` of them,
   * returns how many there are. Asked at the launch. Null: nothing is known of it. */
  size_t (*accesses)(const custash_sim_launch*, custash_sim_access* out, size_t room);
} custash_sim_kernel;

extern const custash_sim_kernel custash_sim_kernels[];

#ifdef __cplusplus
}
#endif
