/* SPDX-License-Identifier: MIT
 *
 * custash: the C API of the caching allocator for CUDA. From version 1.0 on functions are added
 * and never changed; until then the CHANGELOG names each change. CUSTASH_VERSION is the version
 * of this header, custash_version() that of the library in use.
 *
 * Link libcustash.a, or start a program with libcustash.so preloaded and find the functions by
 * dlsym(RTLD_DEFAULT, "custash_…"). Needs C11 or C++; includes no CUDA header.
 *
 * For every function: any thread may call it at any time. Sizes are bytes. `device` is the
 * number that the CUDA runtime gives the device; CUSTASH_CURRENT_DEVICE is the calling
 * thread's. A stream is a cudaStream_t or CUstream; NULL is the legacy default stream. No
 * function prints anything. "As X" names the CUDA or PyTorch call whose meaning a function
 * has. "Errors" leaves out the prefix CUSTASH_ERROR_. custash does not serve a process where it
 * is switched off, once exit has begun, or in a child made by fork. Each function that returns
 * a status then returns CUSTASH_ERROR_NOT_RUNNING.
 */
#ifndef CUSTASH_H
#define CUSTASH_H

#include <stddef.h>
#include <stdint.h>

#define CUSTASH_VERSION_MAJOR 0
#define CUSTASH_VERSION_MINOR 2
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
      1, /* null pointer, no such device, freed pointer, out of range */
  CUSTASH_ERROR_OUT_OF_MEMORY = 2, /* device or host memory; the cache was released first */
  CUSTASH_ERROR_NOT_RUNNING =
      3,                      /* custash does not serve this process, or CUDA does not work */
  CUSTASH_ERROR_NOT_OURS = 4, /* the pointer was not allocated through custash */
  CUSTASH_ERROR_BUFFER_TOO_SMALL = 5, /* the array is too small; it was filled */
  CUSTASH_ERROR_DRIVER = 6,           /* another CUDA error, such as an earlier kernel's */
  CUSTASH_ERROR_FILE = 7,             /* a file cannot be written */
  CUSTASH_ERROR_BUSY = 8,             /* not now; custash_last_error_message says why */
  CUSTASH_ERROR_CONTENTS = 9,         /* no longer returned */
} custash_status_t;

typedef void* custash_stream_t;

typedef struct custash_stat {
  const char* name; /* lives as long as the process */
  int64_t value;
} custash_stat_t;

/* ---- Memory. As in CUDA, a call whose name ends in _async is ordered on the stream that it
 * names. One without _async applies to all streams. Pointers are interchangeable with those
 * of cudaMalloc, cudaMallocAsync, cuMemAlloc and their frees: each of these frees takes what
 * any of these calls allocated. Blocks are aligned to 512 bytes, those of 2 MiB or more to
 * 64 KiB. -------- */

/* Allocates `size` bytes on `device`; every stream may use them at once, as after cudaMalloc.
 * The device need not be the current one, which stays as it is. Size 0 gives NULL and success.
 * Freed by custash_free. Errors: INVALID_VALUE, OUT_OF_MEMORY, NOT_RUNNING, DRIVER; *ptr is
 * then NULL. */
CUSTASH_API custash_status_t custash_malloc(void** ptr, int device, size_t size);

/* Frees memory that any stream may have used, as cudaFree does, without waiting for the device.
 * The memory is not reused until all work already submitted in its context has finished. NULL
 * is success. Errors: NOT_OURS, INVALID_VALUE (freed already, or not the start of a block),
 * NOT_RUNNING, DRIVER. */
CUSTASH_API custash_status_t custash_free(void* ptr);

/* Allocates for use on `stream` from this point of its order on, as cudaMallocAsync does. Other
 * streams may use the memory once they are ordered after this point. Freed by
 * custash_free_async. Otherwise as custash_malloc. */
CUSTASH_API custash_status_t custash_malloc_async(void** ptr,
                                                  int device,
                                                  size_t size,
                                                  custash_stream_t stream);

/* Frees in the order of `stream`, as cudaFreeAsync does: that stream may reuse the memory at
 * once, other streams only after this point. The memory also waits for the streams that
 * custash_record_stream named. NULL is success. Errors: as custash_free. */
CUSTASH_API custash_status_t custash_free_async(void* ptr, custash_stream_t stream);

/* Says that `stream` uses the block as well. The block is reused only after the work that is
 * pending on `stream` when it is freed. As torch.Tensor.record_stream. Errors: INVALID_VALUE
 * when the pointer is not a live block, NOT_RUNNING. */
CUSTASH_API custash_status_t custash_record_stream(void* ptr, custash_stream_t stream);

/* custash_malloc_async in the form that PyTorch's CUDAPluggableAllocator takes. PyTorch would
 * use NULL as memory. So a failure throws the C++ exception std::runtime_error("CUDA out of
 * memory. …") of the process's libstdc++, and PyTorch raises it in Python. In a process without
 * libstdc++ a failure gives NULL. Freed by custash_torch_free. */
CUSTASH_API void* custash_torch_malloc(size_t size, int device, custash_stream_t stream);

/* custash_free_async in that form. It ignores size and device, and reports no errors. */
CUSTASH_API void custash_torch_free(void* ptr,
                                    size_t size,
                                    int device,
                                    custash_stream_t stream);

/* Returns every free page and segment of every device to the driver. Keeps memory that is in
 * use, or whose last work has not ended. Like torch.cuda.empty_cache. Errors: NOT_RUNNING. */
CUSTASH_API custash_status_t custash_empty_cache(void);

/* Puts the device memory of the process to sleep: copies its contents to the host and releases
 * it to the driver. All addresses stay. Waits up to 2 s for the process's work. The next
 * submission wakes all of it. Some memory stays awake (docs/sleeping.md). Errors:
 * INVALID_VALUE, NOT_RUNNING; FILE: libcustash-check.so is missing; BUSY: nothing has changed,
 * and custash_last_error_message says why. */
CUSTASH_API custash_status_t custash_sleep(int device);

/* Returns when the memory is on the device again. It waits while the device has no room. Wakes
 * all devices. Errors: INVALID_VALUE, NOT_RUNNING. */
CUSTASH_API custash_status_t custash_wake(int device);

/* Releases at least `bytes` of free memory to the driver, or all of it if less is free. It
 * releases whole pages, so it may be more. As custash_empty_cache otherwise. Errors:
 * INVALID_VALUE, NOT_RUNNING, DRIVER. */
CUSTASH_API custash_status_t custash_trim(int device, size_t bytes);

/* Releases free memory that custash_free_async or cudaFreeAsync freed on `stream`: for a stream
 * that is no longer used. A handle that custash has not seen succeeds: it holds no memory.
 * Errors: INVALID_VALUE (no context is current), NOT_RUNNING, DRIVER. */
CUSTASH_API custash_status_t custash_trim_stream(custash_stream_t stream);

/* Releases memory that has been free since the previous call, at most 4 GiB. Option decay:
 * does the same by time. Errors: INVALID_VALUE, NOT_RUNNING, DRIVER. */
CUSTASH_API custash_status_t custash_trim_idle(int device);

/* As custash_trim of everything that is free, also in pages that are partly in use: these
 * become small ones at the same addresses. Waits up to 2 s for the process's work; submissions
 * of other threads wait meanwhile. Some pages stay whole (docs/sleeping.md). Errors:
 * INVALID_VALUE, NOT_RUNNING; FILE: libcustash-check.so is missing; BUSY: no page was cut, and
 * custash_last_error_message says why. */
CUSTASH_API custash_status_t custash_trim_deep(int device);

/* The most that is held of the device, in use and cached, by all contexts of this process
 * together; what is held already stays. Allocations beyond it first release all cached memory,
 * then fail with OUT_OF_MEMORY. cudaMemGetInfo reports the limit as the device's size.
 * SIZE_MAX: no limit. As option limit:. Errors: INVALID_VALUE, NOT_RUNNING. */
CUSTASH_API custash_status_t custash_set_memory_limit(int device, size_t bytes);

/* Sets the limit as a share, from 0 to 1, of the device's memory. Like
 * torch.cuda.set_per_process_memory_fraction. */
CUSTASH_API custash_status_t custash_set_memory_fraction(int device, double fraction);

/* Called when an allocation is about to fail for memory, after custash has returned all it can.
 * Returns nonzero if it has freed something, so that custash tries again. Runs on the
 * allocating thread, with no lock of custash held. It may free, but not allocate, device
 * memory. */
typedef int (*custash_oom_callback_t)(int device, size_t bytes, void* data);

/* Adds a callback. Callbacks run in the order in which they were added. Errors: INVALID_VALUE,
 * NOT_RUNNING.
 */
CUSTASH_API custash_status_t custash_add_oom_callback(custash_oom_callback_t callback,
                                                      void* data);

/* Removes it. A call that has begun may still be running. Errors: INVALID_VALUE (not there),
 * NOT_RUNNING. */
CUSTASH_API custash_status_t custash_remove_oom_callback(custash_oom_callback_t callback,
                                                         void* data);

/* Says in a sentence why the calling thread's last refused call failed: an allocation, a sleep,
 * a deep trim, a snapshot or another file. Empty if nothing was refused. Valid until the
 * thread's next refusal. Works in every state of the process. */
CUSTASH_API const char* custash_last_error_message(void);

/* ---- Pinned host memory. Pointers are interchangeable with those of cudaMallocHost,
 * cudaHostAlloc, cuMemHostAlloc and their frees.
 * ---------------------------------------------------------- */

/* Flags of custash_host_malloc, to be combined: those of cudaHostAlloc. */
#define CUSTASH_HOST_DEFAULT 0u
#define CUSTASH_HOST_PORTABLE 1u
#define CUSTASH_HOST_MAPPED 2u /* no effect: all pinned memory is mapped */
#define CUSTASH_HOST_WRITE_COMBINED 4u

/* Allocates `size` bytes of page-locked memory, like cudaHostAlloc, in the context of the
 * calling thread's device. Aligned to 512 bytes, and to 4,096 from 4 KiB on. Size 0 gives NULL
 * and success. Errors: INVALID_VALUE (ptr NULL, unknown flags), OUT_OF_MEMORY, NOT_RUNNING,
 * DRIVER; *ptr is then NULL. */
CUSTASH_API custash_status_t custash_host_malloc(void** ptr, size_t size, unsigned int flags);

/* Frees without waiting. The memory is reused only after the work that was submitted before the
 * free to the streams named by custash_host_record_stream. If none was named, that means all
 * streams. NULL is success. Errors: NOT_OURS, INVALID_VALUE (freed already,
 * or not the start of a buffer), NOT_RUNNING, DRIVER (an earlier kernel's fault; the buffer is
 * free all the same). */
CUSTASH_API custash_status_t custash_host_free(void* ptr);

/* Marks the buffer as used on `stream`. Once any stream is recorded, custash_host_free waits
 * only for recorded streams. Call it once for each stream, before the free. The stream must
 * live until then. cudaFreeHost still waits for all streams. As PyTorch's
 * CachingHostAllocator_recordEvent. Errors: INVALID_VALUE (not the start of a live buffer),
 * NOT_RUNNING. */
CUSTASH_API custash_status_t custash_host_record_stream(void* ptr, custash_stream_t stream);

/* Returns all free pinned memory to the system. Waits for the device, as the driver does when
 * it unpins memory. Like torch._C._host_emptyCache. Errors: NOT_RUNNING, DRIVER. */
CUSTASH_API custash_status_t custash_host_empty_cache(void);

/* All counters of pinned memory, under the names of torch.cuda.host_memory_stats, followed by
 * custash's own. Times are in microseconds. Otherwise like custash_memory_stats. */
CUSTASH_API custash_status_t custash_host_memory_stats(custash_stat_t* stats, size_t* count);

/* Sets every peak of these counters to its current value. Errors: NOT_RUNNING. */
CUSTASH_API custash_status_t custash_host_reset_peak_memory_stats(void);

/* ---- Numbers. Meanings and keys are PyTorch's (torch.cuda.memory_stats).
 * ---------------------- */

/* The current value, its peak, and the sums of its rises and falls. docs/observing.md says how
 * peaks are counted. */
typedef struct custash_counter {
  int64_t current;
  int64_t peak;
  int64_t allocated;
  int64_t freed;
} custash_counter_t;

/* Bytes in blocks that the program owns, rounded up as they were handed out: the counter
 * allocated_bytes of custash_get_device_stats, without its walk over all blocks. The peak is
 * that since the start or the last reset. As torch.cuda.memory_allocated, max_memory_allocated.
 * Errors, here and below: INVALID_VALUE, NOT_RUNNING. */
CUSTASH_API custash_status_t custash_allocated_bytes(int device, custash_counter_t* bytes);

/* Bytes obtained from the driver: owned, cached, and freed but not yet safe to hand out. The
 * counter reserved_bytes; as torch.cuda.memory_reserved and max_memory_reserved. */
CUSTASH_API custash_status_t custash_reserved_bytes(int device, custash_counter_t* bytes);

/* Sets every peak of the device to its current value. */
CUSTASH_API custash_status_t custash_reset_peak_memory_stats(int device);

/* All counters, named as PyTorch names them ("allocated_bytes.all.peak"), custash's own after
 * them. *count: in, the room in `stats`; out, how many counters there are. If stats is NULL,
 * only the number is returned. BUFFER_TOO_SMALL: the first counters were written, as many as
 * there was room for. */
CUSTASH_API custash_status_t custash_memory_stats(int device,
                                                  custash_stat_t* stats,
                                                  size_t* count);

/* ---- The same as a structure, and as text. docs/observing.md says what each member counts.
 * ------ */

/* Which requests a counter of three counts: PyTorch's "all", "small_pool" (up to 1 MiB),
 * "large_pool". */
enum { CUSTASH_ALL = 0, CUSTASH_SMALL = 1, CUSTASH_LARGE = 2, CUSTASH_POOLS = 3 };

/* New members are added at the end only. `size` is how much of it the program knows. Members
 * are bytes or counts. */
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
  int64_t num_alloc_retries;              /* allocations retried after the cache was released */
  int64_t num_ooms;                       /* allocations that failed all the same */
  int64_t num_sync_all_streams;           /* waits of the host for a whole context */
  int64_t num_device_alloc;               /* driver calls that allocated memory */
  int64_t num_device_free;                /* calls that released it */

  /* custash's own. */
  int64_t num_fences;         /* events recorded at frees */
  int64_t num_fence_queries;  /* queries of such an event */
  int64_t num_debt_waits;     /* waits inserted on the GPU before a submission */
  int64_t num_free_waits;     /* frees that waited for work whose results the host could see */
  int64_t num_stalls_avoided; /* frees without a stream that did not wait; without custash they
                                 would have */
  int64_t num_pages_moved;    /* physical pages mapped at another address instead of made */
  int64_t num_guarded;        /* allocations with pages of their own (option guard) */
  int64_t num_unguarded;      /* allocations for which a guard had no room */
  int64_t num_overwritten;    /* guarded blocks with bytes written around them */
  int64_t limbo_bytes;        /* freed blocks above 1 MiB; their work may still run */
  int64_t free_bytes;         /* held, neither owned nor in limbo */
  int64_t
      largest_free_block; /* the largest request that is served without the driver or a move */
  int64_t fragmentation;  /* in thousandths: how much of free_bytes is outside that block */
  int64_t total_bytes;    /* of the device */
  int64_t asleep_bytes; /* of reserved_bytes: its contents are in host memory (custash_sleep) */
  int64_t guard_bytes;  /* pages of guarded blocks, in use or freed */
  int64_t guard_resting_bytes; /* addresses of freed guarded blocks; they have no memory */
  int64_t guard_time_ns;       /* time that guards have added to calls */
} custash_device_stats_t;

/* Fills the members that program and library both know. Visits all blocks (a few microseconds
 * per thousand). Errors: INVALID_VALUE (NULL, size below the first two members, no such
 * device), NOT_RUNNING.
 */
CUSTASH_API custash_status_t custash_get_device_stats(int device,
                                                      custash_device_stats_t* stats);

enum {
  CUSTASH_TEXT_JSON = 0,       /* all numbers: docs/observing.md */
  CUSTASH_TEXT_PROMETHEUS = 1, /* refused: custash stat --prometheus PID prints it */
  CUSTASH_TEXT_TABLE = 2       /* refused: custash stat PID prints it */
};

/* The statistics of the device in that form, ended by a zero. *size: in, the room in `text`;
 * out, the room needed, its zero included. If text is NULL, only that is returned.
 * BUFFER_TOO_SMALL: nothing was written. Errors: INVALID_VALUE (a form that the
 * library does not write, as custash_last_error_message() says, unknown device, size NULL),
 * NOT_RUNNING. */
CUSTASH_API custash_status_t custash_stats_text(int device, int form, char* text, size_t* size);

/* ---- History and snapshots. docs/observing.md says more.
 * ----------------------------------------------------- */

/* Switches history on. From now on each allocation and free is counted by call site, with up to
 * `depth` callers (at most 64). The last `events` of them are kept; 0 keeps none, only the call
 * sites. A second call keeps at least as many, with the new depth. Like
 * torch.cuda.memory._record_memory_history and option history:. Errors: FILE
 * (libcustash-check.so is missing), OUT_OF_MEMORY, NOT_RUNNING. */
CUSTASH_API custash_status_t custash_history_start(size_t events, unsigned int depth);

/* Switches history off. Its records stay, and custash_history_start adds to them. Errors:
 * NOT_RUNNING. */
CUSTASH_API custash_status_t custash_history_stop(void);

/* Writes a snapshot of everything known now to the file, which only its user may read. The
 * library writes JSON (docs/snapshot-schema.json). For x.html, x.pickle, x.trace.json, x.pb.gz
 * and x.folded it writes x.html.json and so on. The log then names the command that makes
 * x.html: custash report x.html.json. Replaces a snapshot, whole or not at all; any other
 * existing file is an error. Errors: INVALID_VALUE (NULL, another ending), FILE
 * (custash_last_error_message() says why), OUT_OF_MEMORY, NOT_RUNNING. */
CUSTASH_API custash_status_t custash_snapshot(const char* path);

/* The memory that is allocated now, by call site, the largest first: the text that option
 * leaks: writes at exit. It covers allocations made since history was switched on, and says so
 * if history was never on. Otherwise as custash_stats_text, and FILE as custash_history_start.
 */
CUSTASH_API custash_status_t custash_leaks_text(char* text, size_t* size);

/* ---- About the library. Work in every state of the process.
 * ------------------------------------ */

/* CUSTASH_VERSION of the library in use: 200 is 0.2.0. */
CUSTASH_API int custash_version(void);

/* "CUSTASH_ERROR_OUT_OF_MEMORY"; "CUSTASH_ERROR_UNKNOWN" for a number that is no status. */
CUSTASH_API const char* custash_error_name(custash_status_t status);

/* One line of English, without a full stop. */
CUSTASH_API const char* custash_error_string(custash_status_t status);

#ifdef __cplusplus
}
#endif

#endif /* CUSTASH_H */
