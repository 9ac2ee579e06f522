/* SPDX-License-Identifier: MIT
 * How a whole program talks to the race detector of the simulated libcuda.so.1
 * (CUSTASH_SIM="detector=1"): it looks up `custash_sim_detector` there, which answers null
 * where the detector is off. The program announces its own allocations, since behind an
 * allocator the driver sees only segments; see race_detector.hpp for what each call means.
 * Streams are those of the calling thread's current device.
 */
#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st;

typedef struct custash_sim_detector_calls {
  /* In the order of a stream; plain, for all streams, where `ordered` is 0. After the call that
   * allocates, before the call that frees. */
  void (*allocated)(const void* memory, size_t bytes, int ordered, struct CUstream_st* stream);
  void (*freed)(const void* memory, int ordered, struct CUstream_st* stream);
  void (*recorded)(const void* memory, struct CUstream_st* stream);
  void (*touched_by_host)(const void* memory, size_t bytes, int write);
  unsigned (*thread)(void); /* the calling thread's number … */
  void (*thread_sync)(unsigned from, unsigned to);
  size_t (*count)(
      const char* kind); /* reports of that kind, as the texts name it; null: of all kinds */
  const char* (*text)(void); /* of all reports; until this thread's next call */
  void (*clear)(void);       /* forgets reports, allocations and order; while nothing runs */
  size_t (*device_bytes)(
      int device); /* in use, as the driver counts: what a watcher outside sees */
} custash_sim_detector_calls;

const custash_sim_detector_calls* custash_sim_detector(void);

#ifdef __cplusplus
}
#endif
