/* SPDX-License-Identifier: MIT
 * actor [DEVICE…]: a process that does what it is told, line by line, and answers each line
 * with one: the driver's code and what there is to say. Memory has small numbers, given in
 * order; those that were told to be forgotten come again. Runs on the simulator and, unchanged,
 * on a GPU. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

typedef unsigned long long address;

struct ipc_handle {
  unsigned char bytes[64];
};

/* CUmemAllocationProp: pinned memory of a device. */
struct property {
  int type, handle_types, location, device;
  void* metadata;
  unsigned char flags[8];
};

/* CUDA_ARRAY_DESCRIPTOR, CUDA_ARRAY3D_DESCRIPTOR, CUDA_EXTERNAL_MEMORY_HANDLE_DESC. */
struct array2 {
  size_t width, height;
  int format;
  unsigned channels;
};

struct array3 {
  size_t width, height, depth;
  int format;
  unsigned channels, flags;
};

struct external {
  int type;
  void* handle[2]; /* a descriptor: an int, at the first one's address */
  address size;
  unsigned flags, reserved[16];
};

/* One side of CUDA_MEMCPY2D and of CUDA_MEMCPY3D, and both. */
struct side2 {
  size_t x, y;
  int type;
  void* host;
  address device;
  void* array;
  size_t pitch;
};

struct side3 {
  size_t x, y, z, level;
  int type;
  void* host;
  address device;
  void *array, *context;
  size_t pitch, height;
};

struct copy2 {
  struct side2 from, to;
  size_t width, height;
};

struct copy3 {
  struct side3 from, to;
  size_t width, height, depth;
};

#define CALLS(X)                                                           \
  X(cuInit, (unsigned))                                                    \
  X(cuDevicePrimaryCtxRetain, (void**, int))                               \
  X(cuDevicePrimaryCtxReset_v2, (int))                                     \
  X(cuDevicePrimaryCtxGetState, (int, unsigned*, int*))                    \
  X(cuCtxSetCurrent, (void*))                                              \
  X(cuCtxCreate_v2, (void**, unsigned, int))                               \
  X(cuCtxDestroy_v2, (void*))                                              \
  X(cuCtxGetCurrent, (void**))                                             \
  X(cuCtxSynchronize, (void))                                              \
  X(cuCtxSynchronize_v2, (void*))                                          \
  X(cuMemAlloc_v2, (address*, size_t))                                     \
  X(cuMemAllocAsync, (address*, size_t, void*))                            \
  X(cuMemFreeAsync, (address, void*))                                      \
  X(cuDeviceGetDefaultMemPool, (void**, int))                              \
  X(cuMemPoolGetAttribute, (void*, int, void*))                            \
  X(cuStreamCreate, (void**, unsigned))                                    \
  X(cuMemAllocManaged, (address*, size_t, unsigned))                       \
  X(cuMemAllocHost_v2, (void**, size_t))                                   \
  X(cuMemFreeHost, (void*))                                                \
  X(cuMemFree_v2, (address))                                               \
  X(cuMemGetInfo_v2, (size_t*, size_t*))                                   \
  X(cuMemCreate, (address*, size_t, const struct property*, address))      \
  X(cuMemRelease, (address))                                               \
  X(cuMemAddressReserve, (address*, size_t, size_t, address, address))     \
  X(cuMemMap, (address, size_t, size_t, address, address))                 \
  X(cuMemSetAccess, (address, size_t, const int*, size_t))                 \
  X(cuMemUnmap, (address, size_t))                                         \
  X(cuMemRetainAllocationHandle, (address*, void*))                        \
  X(cuMemExportToShareableHandle, (void*, address, int, address))          \
  X(cuMemImportFromShareableHandle, (address*, void*, int))                \
  X(cuStreamBeginCapture_v2, (void*, int))                                 \
  X(cuStreamEndCapture, (void*, void**))                                   \
  X(cuGraphInstantiateWithFlags, (void**, void*, address))                 \
  X(cuGraphLaunch, (void*, void*))                                         \
  X(cuGraphExecDestroy, (void*))                                           \
  X(cuGraphDestroy, (void*))                                               \
  X(cuMemGetAllocationPropertiesFromHandle, (struct property*, address))   \
  X(cuMemAllocPitch_v2, (address*, size_t*, size_t, size_t, unsigned))     \
  X(cuArrayCreate_v2, (void**, const struct array2*))                      \
  X(cuArray3DCreate_v2, (void**, const struct array3*))                    \
  X(cuArrayDestroy, (void*))                                               \
  X(cuMipmappedArrayCreate, (void**, const struct array3*, unsigned))      \
  X(cuMipmappedArrayDestroy, (void*))                                      \
  X(cuImportExternalMemory, (void**, const struct external*))              \
  X(cuDestroyExternalMemory, (void*))                                      \
  X(cuMemGetAddressRange_v2, (address*, size_t*, address))                 \
  X(cuMemGetHandleForAddressRange, (void*, address, size_t, int, address)) \
  X(cuPointerGetAttribute, (void*, int, address))                          \
  X(cuPointerSetAttribute, (const void*, int, address))                    \
  X(cuTexObjectCreate, (address*, const void*, const void*, const void*))  \
  X(cuMemGetAccess, (address*, const int*, address))                       \
  X(cuMemsetD8_v2, (address, unsigned char, size_t))                       \
  X(cuLaunchHostFunc, (void*, void (*)(void*), void*))                     \
  X(cuMemcpyDtoH_v2, (void*, address, size_t))                             \
  X(cuMemcpyHtoD_v2, (address, const void*, size_t))                       \
  X(cuMemcpy2D_v2, (const struct copy2*))                                  \
  X(cuMemcpy3D_v2, (const struct copy3*))                                  \
  X(cuIpcGetMemHandle, (struct ipc_handle*, address))                      \
  X(cuIpcOpenMemHandle_v2, (address*, struct ipc_handle, unsigned))        \
  X(cuIpcCloseMemHandle, (address))

#define POINTER(name, params) static int(*name) params;
CALLS(POINTER)

enum { MOST = 1 << 20 };

static address memory[MOST];
static size_t sizes[MOST];
static int count;
static int forgotten[64]; /* numbers to give again */
static int forgotten_count;
static void* contexts[MOST];
static int context_count;

static int find_driver(void) {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == NULL) return 0;
#define FIND(name, params) name = (int(*) params)dlsym(driver, #name);
  CALLS(FIND)
  return cuInit != NULL;
}

static void add(int code, address at, size_t size) {
  if (code != 0 || count == MOST) {
    printf("%d\n", code);
    return;
  }
  const int number = forgotten_count > 0 ? forgotten[--forgotten_count] : count++;
  memory[number] = at;
  sizes[number] = size;
  printf("0 %d %llx\n", number, at);
}

static void export_it(address at) {
  struct ipc_handle handle;
  memset(&handle, 0, sizeof handle);
  const int code = cuIpcGetMemHandle(&handle, at);
  printf("%d", code);
  if (code == 0) {
    printf(" ");
    for (size_t i = 0; i < sizeof handle; ++i)
      printf("%02x", handle.bytes[i]);
  }
  printf("\n");
}

static void open_it(const char* text, size_t size, unsigned flags) {
  struct ipc_handle handle;
  memset(&handle, 0, sizeof handle);
  for (size_t i = 0; i < sizeof handle && text[2 * i] != 0; ++i) {
    unsigned byte = 0;
    sscanf(text + 2 * i, "%2x", &byte);
    handle.bytes[i] = (unsigned char)byte;
  }
  address at = 0;
  const int code = cuIpcOpenMemHandle_v2(&at, handle, flags);
  add(code, at, size);
}

/* A function of the host's that the default stream waits for. */
static void sleep_it(void* seconds) {
  sleep((unsigned)(size_t)seconds);
}

/* How many bytes are not as they should be. */
static void check(address at, size_t size, int value) {
  unsigned char* host = malloc(size);
  const int code = cuMemcpyDtoH_v2(host, at, size);
  size_t wrong = 0;
  for (size_t i = 0; code == 0 && i < size; ++i)
    wrong += host[i] != (unsigned char)value;
  printf("%d %zu\n", code, wrong);
  free(host);
}

/* Contents by their number, no two words of which are alike. */
static uint64_t word_of(size_t i, int number) {
  return (i + 1) * 0x9e3779b97f4a7c15u + (unsigned)number;
}

static void mix(address at, size_t size, int number) {
  uint64_t* host = malloc(size);
  for (size_t i = 0; i < size / 8; ++i)
    host[i] = word_of(i, number);
  printf("%d\n", cuMemcpyHtoD_v2(at, host, size / 8 * 8));
  free(host);
}

static void check_mixed(address at, size_t size, int number) {
  uint64_t* host = malloc(size);
  const int code = cuMemcpyDtoH_v2(host, at, size);
  size_t wrong = 0;
  for (size_t i = 0; code == 0 && i < size / 8; ++i)
    wrong += host[i] != word_of(i, number);
  printf("%d %zu\n", code, wrong);
  free(host);
}

static int descriptors(void) {
  int open = 0;
  for (int fd = 3; fd < 2048; ++fd) {
    char path[64];
    char target[256];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    const ssize_t length = readlink(path, target, sizeof target - 1);
    open += length > 0 && strncmp(target, "socket:", 7) == 0;
  }
  return open;
}

/* A child of a fork, alive until the next "reap": what custash keeps open must not be open
 * there. */
static pid_t child;

static void fork_it(void) {
  int tell[2];
  if (pipe(tell) != 0) exit(3);
  fflush(stdout);
  child = fork();
  if (child == 0) {
    const int sockets = descriptors();
    if (write(tell[1], &sockets, sizeof sockets) != sizeof sockets) _exit(1);
    for (int fd = 0; fd < 3; ++fd)
      close(fd); /* who waits for the end of the test's output has it */
    alarm(20);
    for (;;)
      pause();
  }
  int sockets = -1;
  if (read(tell[0], &sockets, sizeof sockets) != sizeof sockets) sockets = -1;
  close(tell[0]);
  close(tell[1]);
  printf("0 %d\n", sockets);
}

static int threads(void) {
  FILE* status = fopen("/proc/self/status", "r");
  char line[256];
  int number = 0;
  while (fgets(line, sizeof line, status) != NULL)
    sscanf(line, "Threads: %d", &number);
  fclose(status);
  return number;
}

/* Out of the host, to an offset in a block: in two dimensions without a depth, else with slices
 * that are two rows higher than what is copied. */
static int copy_rows(const char* rest) {
  static unsigned char host[1 << 20];
  unsigned n = 0;
  long long offset = 0;
  size_t pitch = 0, width = 0, height = 0, depth = 0;
  sscanf(rest, "%u %lld %zu %zu %zu %zu", &n, &offset, &pitch, &width, &height, &depth);
  if (depth == 0) {
    const size_t x = pitch > width ? 1 : 0;
    const struct copy2 copy = {{0, 0, 1, host, 0, NULL, width},
                               {x, 2, 2, NULL, memory[n] + offset - 2 * pitch - x, NULL, pitch},
                               width,
                               height};
    return cuMemcpy2D_v2(&copy);
  }
  const size_t before = 2 * (height + 2) * pitch + 2 * pitch;
  const struct copy3 copy = {
      {0, 0, 0, 0, 1, host, 0, NULL, NULL, width, height},
      {0, 2, 2, 0, 2, NULL, memory[n] + offset - before, NULL, NULL, pitch, height + 2},
      width,
      height,
      depth};
  return cuMemcpy3D_v2(&copy);
}

/* So many blocks that had SYNC_MEMOPS, in pairs of which one lives a little longer. */
static int sync_memops(unsigned long long blocks) {
  enum { SYNC_MEMOPS = 6 };

  const unsigned on = 1;
  address before = 0;
  int code = 0;
  for (unsigned long long i = 0; i < blocks && code == 0; ++i) {
    address at = 0;
    code = cuMemAlloc_v2(&at, 4096);
    if (code == 0) code = cuPointerSetAttribute(&on, SYNC_MEMOPS, at);
    if (code == 0 && before != 0) code = cuMemFree_v2(before);
    before = at;
  }
  return code != 0 ? code : cuMemFree_v2(before);
}

/* So many allocations of so many bytes, mapped one after the other. */
static void map_pieces(size_t bytes, int pieces) {
  const struct property what = {1, 1, 1, 0, NULL, {0, 1}}; /* with descriptors, for cards */
  const int access[3] = {1, 0, 3};
  address at = 0;
  int code = cuMemAddressReserve(&at, bytes * (size_t)pieces, 0, 0, 0);
  for (int i = 0; code == 0 && i < pieces; ++i) {
    address handle = 0;
    code = cuMemCreate(&handle, bytes, &what, 0);
    if (code == 0) code = cuMemMap(at + bytes * (size_t)i, bytes, 0, handle, 0);
    if (code == 0) code = cuMemRelease(handle);
  }
  if (code == 0) code = cuMemSetAccess(at, bytes * (size_t)pieces, access, 1);
  add(code, at, bytes * (size_t)pieces);
}

/* The whole of a handle, at an address of its own. */
static void map_it(address handle, size_t bytes) {
  const int access[3] = {1, 0, 3};
  address at = 0;
  int code = cuMemAddressReserve(&at, bytes, 0, 0, 0);
  if (code == 0) code = cuMemMap(at, bytes, 0, handle, 0);
  if (code == 0) code = cuMemSetAccess(at, bytes, access, 1);
  add(code, at, bytes);
}

/* An array by its sides and channels: in the first form of any format, in the second of floats
 * with a depth or layers, in the third with levels. */
static void make_array(const char* word, const char* rest) {
  enum { FLOATS = 0x20 };

  void* made = NULL;
  size_t width = 0, height = 0, depth = 0;
  unsigned channels = 1, format = FLOATS, flags = 0, levels = 0;
  int code = 0;
  if (!strcmp(word, "array")) {
    sscanf(rest, "%zu %zu %u %x", &width, &height, &channels, &format);
    const struct array2 what = {width, height, (int)format, channels};
    code = cuArrayCreate_v2(&made, &what);
  } else {
    sscanf(rest, "%zu %zu %zu %u %u", &width, &height, &depth, &flags, &levels);
    const struct array3 what = {width, height, depth, FLOATS, channels, flags};
    code = !strcmp(word, "levels") ? cuMipmappedArrayCreate(&made, &what, levels)
                                   : cuArray3DCreate_v2(&made, &what);
  }
  add(code, (address)made, 0);
}

/* A file stands for memory of another interface: only the simulator takes it. */
static void import_it(size_t size) {
  enum { DESCRIPTOR = 1 };
  struct external what = {DESCRIPTOR, {NULL, NULL}, size, 0, {0}};
  const int fd = memfd_create("external", MFD_CLOEXEC);
  void* made = NULL;
  if (ftruncate(fd, (off_t)size) != 0) exit(3);
  memcpy(what.handle, &fd, sizeof fd);
  const int code = cuImportExternalMemory(&made, &what);
  if (code != 0) close(fd);
  add(code, (address)made, 0);
}

static void* capturing; /* the stream that captures */

static int obey(char* line) {
  char word[32] = "";
  char text[160] = "";
  unsigned long long a = 0, b = 0, c = 0;
  if (sscanf(line, "%31s", word) != 1) return 1;
  const char* rest = line + strlen(word);
  sscanf(rest, "%llu %llu %llu", &a, &b, &c);
  const unsigned n = (unsigned)a;
  if (!strcmp(word, "alloc")) {
    address at = 0;
    const int code = cuMemAlloc_v2(&at, (size_t)a);
    add(code, at, (size_t)a);
  } else if (!strcmp(word, "alloc_async")) {
    address at = 0;
    const int code = cuMemAllocAsync(&at, (size_t)a, NULL);
    add(code, at, (size_t)a);
  } else if (!strcmp(word, "alloc_without_context")) { /* on a stream that was made with one */
    address at = 0;
    void *stream = NULL, *current = NULL;
    cuStreamCreate(&stream, 1);
    cuCtxGetCurrent(&current);
    cuCtxSetCurrent(NULL);
    const int code = cuMemAllocAsync(&at, (size_t)a, stream);
    cuCtxSetCurrent(current);
    add(code, at, (size_t)a);
  } else if (!strcmp(word, "pin")) {
    void* at = NULL;
    const int code = cuMemAllocHost_v2(&at, (size_t)a);
    add(code, (address)at, (size_t)a);
  } else if (!strcmp(word, "write")) { /* all of it, by the host */
    memset((void*)memory[n], 7, sizes[n]);
    printf("0\n");
  } else if (!strcmp(word, "unpin")) {
    printf("%d\n", cuMemFreeHost((void*)memory[n]));
  } else if (!strcmp(word,
                     "poke")) { /* the host's own write, so many bytes from the beginning */
    *(volatile unsigned char*)(memory[n] + strtoll(strchr(rest + 1, ' '), NULL, 10)) = 7;
    printf("0\n");
  } else if (!strcmp(word, "alloc_managed")) {
    address at = 0;
    const int code = cuMemAllocManaged(&at, (size_t)a, 1);
    add(code, at, (size_t)a);
  } else if (!strcmp(word, "alloc_pitch")) {
    address at = 0;
    size_t pitch = 0;
    const int code = cuMemAllocPitch_v2(&at, &pitch, (size_t)a, (size_t)b, 4);
    add(code, at, (size_t)b * pitch);
  } else if (!strcmp(word, "create")) {
    const struct property what = {1, (int)c, 1, (int)b, NULL, {0}};
    address handle = 0;
    const int code = cuMemCreate(&handle, (size_t)a, &what, 0);
    add(code, handle, (size_t)a);
  } else if (!strcmp(word, "map")) {
    map_it(memory[n], sizes[n]);
  } else if (!strcmp(word, "unmap")) {
    printf("%d\n", cuMemUnmap(memory[n], sizes[n]));
  } else if (!strcmp(word, "retain")) {
    address handle = 0;
    const int code = cuMemRetainAllocationHandle(&handle, (void*)memory[n]);
    add(code, handle, sizes[n]);
  } else if (!strcmp(word, "export_handle")) {
    int fd = -1;
    const int code = cuMemExportToShareableHandle(&fd, memory[n], 1, 0);
    if (code == 0) close(fd);
    printf("%d\n", code);
  } else if (!strcmp(word, "export_fd")) {
    int fd = -1;
    const int code = cuMemExportToShareableHandle(&fd, memory[n], 1, 0);
    printf("%d %d\n", code, fd);
  } else if (!strcmp(word, "import_fd")) { /* PROCESS DESCRIPTOR BYTES */
    address handle = 0;
    const int process = (int)syscall(SYS_pidfd_open, n, 0);
    const int fd = (int)syscall(SYS_pidfd_getfd, process, (int)b, 0);
    if (process >= 0) close(process);
    const int code = cuMemImportFromShareableHandle(&handle, (void*)(size_t)fd, 1);
    if (fd >= 0) close(fd);
    add(code, handle, (size_t)c);
  } else if (!strcmp(word,
                     "graph_memory")) { /* a graph that allocates and frees, and has run */
    address at = 0;
    void *stream = NULL, *graph = NULL, *exec = NULL;
    int code = cuStreamCreate(&stream, 1);
    if (code == 0) code = cuStreamBeginCapture_v2(stream, 2);
    if (code == 0) code = cuMemAllocAsync(&at, (size_t)a, stream);
    if (code == 0) code = cuMemFreeAsync(at, stream);
    if (code == 0) code = cuStreamEndCapture(stream, &graph);
    if (code == 0) code = cuGraphInstantiateWithFlags(&exec, graph, 0);
    if (code == 0) code = cuGraphLaunch(exec, stream);
    if (code == 0) code = cuCtxSynchronize();
    if (graph != NULL) cuGraphDestroy(graph);
    add(code, (address)exec, (size_t)a);
  } else if (!strcmp(word, "begin_capture")) { /* that refuses every thread's unsafe calls */
    int code = cuStreamCreate(&capturing, 1);
    if (code == 0) code = cuStreamBeginCapture_v2(capturing, 0);
    printf("%d\n", code);
  } else if (!strcmp(word, "end_capture")) {
    void* graph = NULL;
    const int code = cuStreamEndCapture(capturing, &graph);
    if (graph != NULL) cuGraphDestroy(graph);
    printf("%d\n", code);
  } else if (!strcmp(word, "end_graph")) {
    printf("%d\n", cuGraphExecDestroy((void*)memory[n]));
  } else if (!strcmp(word, "properties")) {
    struct property what;
    memset(&what, 0, sizeof what);
    const int code = cuMemGetAllocationPropertiesFromHandle(&what, memory[n]);
    printf("%d %d %d\n", code, what.location, what.device);
  } else if (!strcmp(word, "pieces")) {
    map_pieces((size_t)a, (int)b);
  } else if (!strcmp(word, "release")) {
    printf("%d\n", cuMemRelease(memory[n]));
  } else if (!strcmp(word, "array") || !strcmp(word, "array3") || !strcmp(word, "levels")) {
    make_array(word, rest);
  } else if (!strcmp(word, "external")) {
    import_it((size_t)a);
  } else if (!strcmp(word, "end_array")) {
    printf("%d\n", cuArrayDestroy((void*)memory[n]));
  } else if (!strcmp(word, "end_levels")) {
    printf("%d\n", cuMipmappedArrayDestroy((void*)memory[n]));
  } else if (!strcmp(word, "end_external")) {
    printf("%d\n", cuDestroyExternalMemory((void*)memory[n]));
  } else if (!strcmp(word, "free")) {
    printf("%d\n", cuMemFree_v2(memory[n] + b));
  } else if (!strcmp(word, "forget")) {
    if (forgotten_count < 64) forgotten[forgotten_count++] = (int)n;
    printf("0\n");
  } else if (!strcmp(word, "leak")) { /* host memory */
    char* const lost = malloc((size_t)a);
    printf("%d\n", lost == NULL);
    if (lost != NULL) memset(lost, 7, (size_t)a);
  } else if (!strcmp(word, "fill")) {
    printf("%d\n", cuMemsetD8_v2(memory[n] + c, (unsigned char)b, sizes[n]));
  } else if (!strcmp(word, "mix")) {
    mix(memory[n], sizes[n], (int)b);
  } else if (!strcmp(word, "mixed")) {
    check_mixed(memory[n], sizes[n], (int)b);
  } else if (!strcmp(word, "hold")) { /* the default stream, for so many seconds */
    printf("%d\n", cuLaunchHostFunc(NULL, sleep_it, (void*)(size_t)a));
  } else if (!strcmp(word, "rows")) {
    printf("%d\n", copy_rows(rest));
  } else if (!strcmp(word, "check")) {
    check(memory[n], sizes[n], (int)b);
  } else if (!strcmp(word, "export")) {
    export_it(memory[n] + b);
  } else if (!strcmp(word, "open")) {
    unsigned flags = 1;
    sscanf(rest, "%159s %llu %u", text, &a, &flags);
    open_it(text, (size_t)a, flags);
  } else if (!strcmp(word, "close")) {
    printf("%d\n", cuIpcCloseMemHandle(memory[n] + b));
  } else if (!strcmp(word, "range")) {
    address base = 0;
    size_t size = 0;
    const int code = cuMemGetAddressRange_v2(&base, &size, memory[n] + b);
    printf("%d %lld %zu\n", code, (long long)(memory[n] - base), size);
  } else if (!strcmp(word, "attribute")) {
    address value = 0;
    const int code = cuPointerGetAttribute(&value, (int)b, memory[n]);
    printf("%d %llu\n", code, value);
  } else if (!strcmp(word, "texture")) {
    /* CUDA_RESOURCE_DESC of linear memory: kind 2; address, bytes as floats, one channel */
    address what[32] = {2, memory[n], 0x20ULL | 1ULL << 32, b}, how[32] = {0}, made = 0;
    printf("%d\n", cuTexObjectCreate(&made, what, how, NULL));
  } else if (!strcmp(word, "access")) {
    const int where[2] = {1, (int)b}; /* a device, by its number */
    address flags = 0;
    const int code = cuMemGetAccess(&flags, where, memory[n]);
    printf("%d %llu\n", code, flags);
  } else if (!strcmp(word, "dmabuf")) {
    int fd = -1;
    const int code = cuMemGetHandleForAddressRange(&fd, memory[n], (size_t)b, 1, 0);
    if (code == 0) close(fd);
    printf("%d\n", code);
  } else if (!strcmp(word, "info")) {
    size_t available = 0, total = 0;
    const int code = cuMemGetInfo_v2(&available, &total);
    printf("%d %zu %zu\n", code, available, total);
  } else if (!strcmp(word, "pool_used")) { /* of the device's default pool */
    void* pool = NULL;
    unsigned long long used = 0;
    int code = cuDeviceGetDefaultMemPool(&pool, (int)a);
    if (code == 0) code = cuMemPoolGetAttribute(pool, 7, &used);
    printf("%d %llu\n", code, used);
  } else if (!strcmp(word, "sync")) {
    printf("%d\n", cuCtxSynchronize());
  } else if (!strcmp(word, "sync_v2")) {
    void* context = NULL;
    const int code = cuCtxGetCurrent(&context);
    printf("%d\n", code != 0 ? code : cuCtxSynchronize_v2(context));
  } else if (!strcmp(word, "device")) {
    void* context = NULL;
    int code = cuDevicePrimaryCtxRetain(&context, (int)a);
    if (code == 0) code = cuCtxSetCurrent(context);
    printf("%d\n", code);
  } else if (!strcmp(word, "context")) {
    const int code = cuCtxCreate_v2(&contexts[context_count], 0, (int)a);
    printf("%d %d\n", code, context_count++);
  } else if (!strcmp(word, "current")) {
    printf("%d\n", cuCtxSetCurrent(contexts[n]));
  } else if (!strcmp(word, "destroy")) {
    printf("%d\n", cuCtxDestroy_v2(contexts[n]));
  } else if (!strcmp(word, "reset")) {
    printf("%d\n", cuDevicePrimaryCtxReset_v2((int)a));
  } else if (!strcmp(word, "sync_memops")) {
    printf("%d\n", sync_memops(a));
  } else if (!strcmp(word, "active")) { /* whether a device has its primary context */
    unsigned flags = 0;
    int active = -1;
    const int code = cuDevicePrimaryCtxGetState((int)a, &flags, &active);
    printf("%d %d\n", code, active);
  } else if (!strcmp(word, "fork")) {
    fork_it();
  } else if (!strcmp(word, "over")) { /* the number of a descriptor, and what it is to be */
    sscanf(rest, "%*u %159s", text);
    const int fd = open(text, O_RDONLY);
    printf("%d\n", dup2(fd, (int)n) == (int)n ? close(fd) : -1);
  } else if (!strcmp(word,
                     "close_from")) { /* as a daemon does: all descriptors from there on */
    for (int fd = (int)n; fd < 4096; ++fd)
      close(fd);
    printf("0\n");
  } else if (!strcmp(word, "reap")) {
    kill(child, 9);
    printf("%d\n", waitpid(child, NULL, 0) == child ? 0 : 1);
  } else if (!strcmp(word, "threads")) {
    printf("0 %d\n", threads());
  } else if (!strcmp(word, "sockets")) {
    printf("0 %d\n", descriptors());
  } else if (!strcmp(word, "empty")) {
    int (*empty)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "custash_empty_cache");
    printf("%d\n", empty == NULL ? -1 : empty());
  } else if (!strcmp(word, "limit")) {
    int (*limit)(int, size_t) =
        (int (*)(int, size_t))dlsym(RTLD_DEFAULT, "custash_set_memory_limit");
    printf("%d\n", limit == NULL ? -1 : limit(0, (size_t)a));
  } else if (!strcmp(word, "quit")) {
    printf("0\n");
    return 0;
  } else {
    printf("-1 what is %s?\n", word);
  }
  return 1;
}

static void caught(int number) {
  (void)number;
  _exit(42);
}

int main(void) {
  static char line[1024];
  setvbuf(stdout, NULL, _IOLBF, 0);
  if (getenv("ACTOR_CATCHES") != NULL) signal(SIGSEGV, caught);
  if (!find_driver() || cuInit(0) != 0) return 77;
  printf("0 %d\n", (int)getpid());
  while (fgets(line, sizeof line, stdin) != NULL && obey(line)) {
  }
  return 0;
}
