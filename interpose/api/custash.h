/* SPDX-License-Identifier: MIT
 *
 * custash: the C API of the caching allocator for CUDA. Stable: functions are added, never
 * changed; CUSTASH_VERSION says what a header declares, custash_version() what the library in
 * use has.
 *
 * Link libcustash.a, or start a program with libcustash.so preloaded and find the functions by
 * dlsym(RTLD_DEFAULT, "custash_…"). Needs C11 or C++; includes no CUDA header.
 *
 * For every function: any thread may call it at any time. Sizes are bytes. `device` is the
 * number that the CUDA runtime gives the device; CUSTASH_CURRENT_DEVICE is the calling
 * thread's. A stream is a cudaStream_t or CUstream; NULL is the legacy default stream. Nothing
 * is printed. Where custash does not serve the process (it is switched off, exit has begun, or
 * this is a child made by fork), every function that returns a status returns
 * CUSTASH_ERROR_NOT_RUNNING.
 */
#ifndef CUSTASH_H
#define CUSTASH_H

#include <stddef.h>
#include <stdint.h>

#define CUSTASH_VERSION_MAJOR 0
#define CUSTASH_VERSION_MINOR 1
#define CUSTASH_VERSION_PATCH 0
#define CUSTASH_VERSION \
  (CUSTASH_VERSION_MAJOR * 10000 + CUSTASH_VERSION_MINOR * 100 + CUSTASH_VERSION_PATCH)

#define CUSTASH_CURRENT_DEVICE (-1)

#if defined(__GNUC__)
#define CUSTASH_API __attribute__((visibility("default")))
#else
#define CUSTASH_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum custash_status {
  CUSTASH_SUCCESS = 0,
  CUSTASH_ERROR_INVALID_VALUE =
      1, /* a null pointer, a device that is not there, a freed pointer */
  CUSTASH_ERROR_OUT_OF_MEMORY =
      2, /* device or host memory, after everything cached was given back */
  CUSTASH_ERROR_NOT_RUNNING =
      3,                      /* custash does not serve this process, or CUDA does not work */
  CUSTASH_ERROR_NOT_OURS = 4, /* the pointer was not allocated through custash */
  CUSTASH_ERROR_BUFFER_TOO_SMALL = 5, /* the array was filled as far as it goes */
  CUSTASH_ERROR_DRIVER = 6, /* another CUDA error, e.g. of a kernel that went before */
  CUSTASH_ERROR_FILE = 7    /* a file cannot be written */
} custash_status_t;

typedef void* custash_stream_t;

typedef struct custash_stat {
  const char* name; /* lives as long as the process */
  int64_t value;
} custash_stat_t;

/* ---- Memory. Pointers are interchangeable with those of cudaMalloc, cudaMallocAsync,
 * cuMemAlloc and their frees: any of these may free what any other allocated. Alignment is 512.
 * -------- */

/* Allocates `size` bytes on `device`, for use on `stream` from this point of its order on, as
 * cudaMallocAsync does; another stream may use it once it is ordered behind this point. The
 * device need not be the current one, which stays as it is. Size 0 gives NULL and success.
 * Errors: INVALID_VALUE, OUT_OF_MEMORY, NOT_RUNNING, DRIVER; *ptr is then NULL. */
CUSTASH_API custash_status_t custash_malloc(void** ptr,
                                            int device,
                                            size_t size,
                                            custash_stream_t stream);

/* Allocates for use on any stream at once, as cudaMalloc does. Otherwise as custash_malloc. */
CUSTASH_API custash_status_t custash_malloc_any_stream(void** ptr, int device, size_t size);

/* Frees what any stream may have used, as cudaFree does, but without waiting for the device:
 * the memory is handed out again only behind all work that its context holds now. NULL is
 * success. Errors: NOT_OURS, INVALID_VALUE (freed already, or not the start of a block),
 * NOT_RUNNING, DRIVER. */
CUSTASH_API custash_status_t custash_free(void* ptr);

/* cudaMallocAsync on the calling thread's device: as custash_malloc with
 * CUSTASH_CURRENT_DEVICE. */
CUSTASH_API custash_status_t custash_malloc_async(void** ptr,
                                                  size_t size,
                                                  custash_stream_t stream);

/* Frees in the order of `stream`, as cudaFreeAsync does: the stream may have the memory again
 * at once, others behind this point. Streams named by custash_record_stream are waited for,
 * too. NULL is success. Errors: as custash_free. */
CUSTASH_API custash_status_t custash_free_async(void* ptr, custash_stream_t stream);

/* Says that `stream` uses the block as well: after its free it is handed out again only behind
 * what `stream` holds at the free. As torch.Tensor.record_stream. Errors: INVALID_VALUE when
 * the pointer is not a live block, NOT_RUNNING. */
CUSTASH_API custash_status_t custash_record_stream(void* ptr, custash_stream_t stream);

/* The pair that torch.cuda.memory.CUDAPluggableAllocator takes: custash_malloc with the
 * parameters in its order; NULL on any error. */
CUSTASH_API void* custash_pluggable_malloc(size_t size, int device, custash_stream_t stream);

/* Its other half: custash_free_async; size and device are not needed, errors are not reported.
 */
CUSTASH_API void custash_pluggable_free(void* ptr,
                                        size_t size,
                                        int device,
                                        custash_stream_t stream);

/* The pair for PyTorch itself, which would take NULL for memory: where custash_pluggable_malloc
 * returns NULL, this throws the C++ exception std::runtime_error("CUDA out of memory. …") of
 * the process's libstdc++, which PyTorch hands on to Python. For that caller alone. In a
 * process without libstdc++: NULL. */
CUSTASH_API void* custash_torch_malloc(size_t size, int device, custash_stream_t stream);

/* Its other half: the same as custash_pluggable_free. */
CUSTASH_API void custash_torch_free(void* ptr,
                                    size_t size,
                                    int device,
                                    custash_stream_t stream);

/* Gives every free page and segment of every device back to the driver. Memory that is in use,
 * or whose last work has not ended, stays. As torch.cuda.empty_cache. Errors: NOT_RUNNING. */
CUSTASH_API custash_status_t custash_empty_cache(void);

/* Gives free memory of the device back, at least `bytes` of it if so much is free: whole pages,
 * so it may be more. As custash_empty_cache otherwise. Errors: INVALID_VALUE, NOT_RUNNING,
 * DRIVER. */
CUSTASH_API custash_status_t custash_trim(int device, size_t bytes);

/* Gives back what was freed on `stream` by custash_free_async or cudaFreeAsync and is free, as
 * when a stream is not used any more. Errors: INVALID_VALUE (no such stream), NOT_RUNNING,
 * DRIVER. */
CUSTASH_API custash_status_t custash_trim_stream(custash_stream_t stream);

/* Gives back what has been free since the call before this one, at most 4 GiB; option decay:
 * does the same by time. Errors: INVALID_VALUE, NOT_RUNNING, DRIVER. */
CUSTASH_API custash_status_t custash_trim_idle(int device);

/* The most that is held of the device, in use and cached, by all contexts of this process
 * together; what is held already stays. Past it allocations fail for memory, after everything
 * free was given back; cudaMemGetInfo tells the limit as the device's size. SIZE_MAX: no limit.
 * As option limit:. Errors: INVALID_VALUE, NOT_RUNNING. */
CUSTASH_API custash_status_t custash_set_memory_limit(int device, size_t bytes);

/* The same as a share, from 0 to 1, of the device's memory. As
 * torch.cuda.set_per_process_memory_fraction. */
CUSTASH_API custash_status_t custash_set_memory_fraction(int device, double fraction);

/* Called when an allocation is about to fail for memory, after all that custash can give back:
 * returns nonzero when it has freed something and the allocation is worth another try. Runs on
 * the allocating thread, with no lock of custash held; may free, may not allocate device
 * memory. */
typedef int (*custash_oom_callback_t)(int device, size_t bytes, void* data);

/* Adds a callback; each is called in the order of addition. Errors: INVALID_VALUE, NOT_RUNNING.
 */
CUSTASH_API custash_status_t custash_add_oom_callback(custash_oom_callback_t callback,
                                                      void* data);

/* Removes it; a call that goes on may still run. Errors: INVALID_VALUE (not there),
 * NOT_RUNNING. */
CUSTASH_API custash_status_t custash_remove_oom_callback(custash_oom_callback_t callback,
                                                         void* data);

/* Why the calling thread's last allocation was refused, in a sentence with the numbers, or why
 * its last file was not written; empty when neither was. Valid until the thread's next refusal.
 * Works in every state of the process. */
CUSTASH_API const char* custash_last_error_message(void);

/* ---- Pinned host memory. Pointers are interchangeable with those of cudaMallocHost,
 * cudaHostAlloc, cuMemHostAlloc and their frees.
 * ---------------------------------------------------------- */

/* Flags of custash_host_malloc, to be combined: those of cudaHostAlloc. */
#define CUSTASH_HOST_DEFAULT 0u
#define CUSTASH_HOST_PORTABLE 1u
#define CUSTASH_HOST_MAPPED 2u /* makes no difference: all pinned memory is mapped */
#define CUSTASH_HOST_WRITE_COMBINED 4u

/* Allocates `size` bytes of page-locked memory, as cudaHostAlloc does, in the context of the
 * calling thread's device. Aligned to 512, from 4 KiB on to 4,096. Size 0 gives NULL and
 * success. Errors: INVALID_VALUE (ptr NULL, unknown flags), OUT_OF_MEMORY, NOT_RUNNING, DRIVER;
 * *ptr is then NULL. */
CUSTASH_API custash_status_t custash_host_malloc(void** ptr, size_t size, unsigned int flags);

/* Frees without waiting. The memory is handed out again only when all work is over that was
 * submitted, before the free, to the streams named by custash_host_record_event, or to any
 * stream where none was named. NULL is success. Errors: NOT_OURS, INVALID_VALUE (freed already,
 * or not the start of a buffer), NOT_RUNNING, DRIVER (an earlier kernel's fault; the buffer is
 * free all the same). */
CUSTASH_API custash_status_t custash_host_free(void* ptr);

/* Says that `stream` uses the buffer, and that only streams so named do: its free then waits
 * for nothing else. To be called once for each stream, any time before the free. The stream has
 * to live until then. cudaFreeHost heeds all streams whatever was named. As PyTorch's
 * CachingHostAllocator_recordEvent. Errors: INVALID_VALUE (not the start of a live buffer),
 * NOT_RUNNING. */
CUSTASH_API custash_status_t custash_host_record_event(void* ptr, custash_stream_t stream);

/* Gives all pinned memory that is free back to the system. As the driver does when it unpins
 * memory, waits for the device. As torch._C._host_emptyCache. Errors: NOT_RUNNING, DRIVER. */
CUSTASH_API custash_status_t custash_host_empty_cache(void);

/* All counters of pinned memory, named as torch.cuda.host_memory_stats names them, custash's
 * own after them; times are microseconds. Otherwise as custash_memory_stats. */
CUSTASH_API custash_status_t custash_host_memory_stats(custash_stat_t* stats, size_t* count);

/* Sets every peak of these counters to its current value. Errors: NOT_RUNNING. */
CUSTASH_API custash_status_t custash_reset_peak_host_memory_stats(void);

/* ---- Numbers. Meanings and keys are PyTorch's (torch.cuda.memory_stats).
 * ---------------------- */

/* Bytes in blocks that the program owns now, rounded up as they were handed out.
 * Errors, here and below: INVALID_VALUE, NOT_RUNNING. */
CUSTASH_API custash_status_t custash_memory_allocated(int device, size_t* bytes);

/* Bytes obtained from the driver now: owned, cached, and freed but not yet safe to hand out. */
CUSTASH_API custash_status_t custash_memory_reserved(int device, size_t* bytes);

/* The most that custash_memory_allocated would have said since the start or the last reset. */
CUSTASH_API custash_status_t custash_max_memory_allocated(int device, size_t* bytes);

/* The most that custash_memory_reserved would have said since the start or the last reset. */
CUSTASH_API custash_status_t custash_max_memory_reserved(int device, size_t* bytes);

/* Sets every peak of the device to its current value. */
CUSTASH_API custash_status_t custash_reset_peak_memory_stats(int device);

/* All counters, named as PyTorch names them ("allocated_bytes.all.peak"), custash's own after
 * them. *count: in, the room in `stats`; out, how many counters there are. stats may be NULL:
 * only the number is told. BUFFER_TOO_SMALL: the first counters were written, as many as there
 * was room for. */
CUSTASH_API custash_status_t custash_memory_stats(int device,
                                                  custash_stat_t* stats,
                                                  size_t* count);

/* ---- The same as a structure, and as text. docs/statistics.md says what each member counts.
 * ------ */

/* A value now, the most it ever was, and the sums of its rises and falls. The first is exact,
 * so are the last two; how exact a peak is, docs/statistics.md says. */
typedef struct custash_counter {
  int64_t current;
  int64_t peak;
  int64_t allocated;
  int64_t freed;
} custash_counter_t;

/* Which requests a counter of three counts: PyTorch's "all", "small_pool" (up to 1 MiB),
 * "large_pool". */
enum { CUSTASH_ALL = 0, CUSTASH_SMALL = 1, CUSTASH_LARGE = 2, CUSTASH_POOLS = 3 };

/* Only grows, at its end: `size` tells the library how much of it the program knows. Bytes and
 * counts. */
typedef struct custash_device_stats {
  size_t size;    /* in: sizeof(custash_device_stats_t); out: how much of that was filled */
  int64_t device; /* as the CUDA runtime numbers it */

  /* PyTorch's, by pool. */
  custash_counter_t allocation[CUSTASH_POOLS];
  custash_counter_t segment[CUSTASH_POOLS];
  custash_counter_t active[CUSTASH_POOLS];
  custash_counter_t inactive_split[CUSTASH_POOLS];
  custash_counter_t allocated_bytes[CUSTASH_POOLS];
  custash_counter_t reserved_bytes[CUSTASH_POOLS];
  custash_counter_t active_bytes[CUSTASH_POOLS];
  custash_counter_t inactive_split_bytes[CUSTASH_POOLS];
  custash_counter_t requested_bytes[CUSTASH_POOLS];
  custash_counter_t oversize_allocations; /* always 0: custash splits blocks of any size */
  custash_counter_t oversize_segments;    /* always 0 */
  int64_t max_split_size;                 /* always -1: no limit, as PyTorch's default */
  int64_t num_alloc_retries;    /* the driver refused, the cache was given back, asked again */
  int64_t num_ooms;             /* and the allocation failed all the same */
  int64_t num_sync_all_streams; /* waits of the host for a whole context */
  int64_t num_device_alloc;     /* calls that made memory in the driver */
  int64_t num_device_free;      /* calls that gave it back */

  /* custash's own. */
  int64_t num_fences;        /* events recorded at frees */
  int64_t num_fence_queries; /* times such an event was asked whether it has passed */
  int64_t num_debt_waits;    /* waits inserted on the GPU before a submission */
  int64_t num_free_waits;    /* frees that waited for work whose results the host could see */
  int64_t
      num_stalls_avoided;  /* plain frees on the bare driver would have waited: all but these */
  int64_t num_pages_moved; /* physical pages mapped at another address instead of made */
  int64_t limbo_bytes;     /* freed, the work that used it not yet over */
  int64_t free_bytes;      /* held, neither owned nor in limbo */
  int64_t
      largest_free_block; /* the largest request that is served without the driver or a move */
  int64_t fragmentation;  /* in thousandths: how much of free_bytes lies outside that block */
  int64_t total_bytes;    /* of the device */
} custash_device_stats_t;

/* Fills what both sides know. Walks all blocks (some microseconds for each thousand).
 * Errors: INVALID_VALUE (NULL, size below the first two members, no such device), NOT_RUNNING.
 */
CUSTASH_API custash_status_t custash_get_device_stats(int device,
                                                      custash_device_stats_t* stats);

enum {
  CUSTASH_TEXT_JSON = 0,       /* every number that there is: docs/statistics.md */
  CUSTASH_TEXT_PROMETHEUS = 1, /* the same for a scraper */
  CUSTASH_TEXT_TABLE = 2       /* torch.cuda.memory_summary's */
};

/* The statistics of the device in that form, ended by a zero. *size: in, the room in `text`;
 * out, what is needed, its zero included. text may be NULL: only that is told.
 * BUFFER_TOO_SMALL: nothing was written. Errors: INVALID_VALUE (unknown form or device, size
 * NULL), NOT_RUNNING. */
CUSTASH_API custash_status_t custash_stats_text(int device, int form, char* text, size_t* size);

/* custash_stats_text of CUSTASH_TEXT_TABLE: as torch.cuda.memory_summary, the same rows and
 * layout. */
CUSTASH_API custash_status_t custash_memory_summary(int device, char* text, size_t* size);

/* ---- History and snapshots: docs/history.md.
 * ----------------------------------------------------- */

/* Switches history on: from now on each allocation and free is counted by call site, and the
 * last `events` of them are kept (0: none, the call sites alone), with `depth` callers (at most
 * 64). Called again: keeps at least as many, with that depth. As
 * torch.cuda.memory._record_memory_history and option history:. Errors: OUT_OF_MEMORY,
 * NOT_RUNNING. */
CUSTASH_API custash_status_t custash_history(size_t events, unsigned int depth);

/* Switches it off; what was gathered stays, and goes on where it is switched on again. */
CUSTASH_API custash_status_t custash_history_stop(void);

/* Writes everything that is known now to the file, which only its user may read. A snapshot of
 * the same form is replaced, whole or not at all; any other file that is there is an error. The
 * ending says the form: .html, a report to read; .json (docs/snapshot-schema.json); .pickle, as
 * torch.cuda.memory._dump_snapshot; .trace.json, for Perfetto.
 * Errors: INVALID_VALUE (NULL, another ending), FILE (custash_last_error_message() says why),
 * OUT_OF_MEMORY, NOT_RUNNING. */
CUSTASH_API custash_status_t custash_snapshot(const char* path);

/* What is allocated now, by call site, the largest first, as option leaks: says it at exit; of
 * what was allocated since history was switched on; a line that says so where it never was. As
 * custash_stats_text otherwise. */
CUSTASH_API custash_status_t custash_leaks_text(char* text, size_t* size);

/* ---- About the library. Work in every state of the process.
 * ------------------------------------ */

/* CUSTASH_VERSION of the library in use: 100 is 0.1.0. */
CUSTASH_API int custash_version(void);

/* "CUSTASH_ERROR_OUT_OF_MEMORY"; "CUSTASH_ERROR_UNKNOWN" for a number that is no status. */
CUSTASH_API const char* custash_error_name(custash_status_t status);

/* One line of English, without a full stop. */
CUSTASH_API const char* custash_error_string(custash_status_t status);

#ifdef __cplusplus
}
#endif

#endif /* CUSTASH_H */
