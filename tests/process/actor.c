/* SPDX-License-Identifier: MIT
 * actor [DEVICE…]: a process that does what it is told, line by line, and answers each line
 * with one: the driver's code and what there is to say. Memory has small numbers, given in
 * order; those that were told to be forgotten come again. Runs on the simulator and, unchanged,
 * on a GPU. */
#define _GNU_SOURCE
#define __CUDA_API_VERSION_INTERNAL /* the exported names, not what newer ones stand for */
#include <cuda.h>
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

typedef CUdeviceptr address;

static void* driver;

#define CALL(name, ...) ((__typeof__(&name))dlsym(driver, #name))(__VA_ARGS__)

enum { MOST = 1 << 20 };

static address memory[MOST];
static size_t sizes[MOST];
static int count;
static int forgotten[64]; /* numbers to give again */
static int forgotten_count;
static CUcontext contexts[MOST];
static int context_count;

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
  CUipcMemHandle handle;
  memset(&handle, 0, sizeof handle);
  const int code = CALL(cuIpcGetMemHandle, &handle, at);
  printf("%d", code);
  if (code == 0) {
    printf(" ");
    for (size_t i = 0; i < sizeof handle; ++i)
      printf("%02x", (unsigned char)handle.reserved[i]);
  }
  printf("\n");
}

static void open_it(const char* text, size_t size, unsigned flags) {
  CUipcMemHandle handle;
  memset(&handle, 0, sizeof handle);
  for (size_t i = 0; i < sizeof handle && text[2 * i] != 0; ++i) {
    unsigned byte = 0;
    sscanf(text + 2 * i, "%2x", &byte);
    handle.reserved[i] = (char)byte;
  }
  address at = 0;
  const int code = CALL(cuIpcOpenMemHandle_v2, &at, handle, flags);
  add(code, at, size);
}

/* A function of the host's that the default stream waits for. */
static void sleep_it(void* seconds) {
  sleep((unsigned)(size_t)seconds);
}

/* How many bytes are not as they should be. */
static void check(address at, size_t size, int value) {
  unsigned char* host = malloc(size);
  const int code = CALL(cuMemcpyDtoH_v2, host, at, size);
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
  printf("%d\n", CALL(cuMemcpyHtoD_v2, at, host, size / 8 * 8));
  free(host);
}

static void check_mixed(address at, size_t size, int number) {
  uint64_t* host = malloc(size);
  const int code = CALL(cuMemcpyDtoH_v2, host, at, size);
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
    const CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                                .srcHost = host,
                                .srcPitch = width,
                                .dstXInBytes = x,
                                .dstY = 2,
                                .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                                .dstDevice = memory[n] + offset - 2 * pitch - x,
                                .dstPitch = pitch,
                                .WidthInBytes = width,
                                .Height = height};
    return CALL(cuMemcpy2D_v2, &copy);
  }
  const size_t before = 2 * (height + 2) * pitch + 2 * pitch;
  const CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                              .srcHost = host,
                              .srcPitch = width,
                              .srcHeight = height,
                              .dstY = 2,
                              .dstZ = 2,
                              .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                              .dstDevice = memory[n] + offset - before,
                              .dstPitch = pitch,
                              .dstHeight = height + 2,
                              .WidthInBytes = width,
                              .Height = height,
                              .Depth = depth};
  return CALL(cuMemcpy3D_v2, &copy);
}

/* So many blocks that had SYNC_MEMOPS, in pairs of which one lives a little longer. */
static int sync_memops(unsigned long long blocks) {
  const unsigned on = 1;
  address before = 0;
  int code = 0;
  for (unsigned long long i = 0; i < blocks && code == 0; ++i) {
    address at = 0;
    code = CALL(cuMemAlloc_v2, &at, 4096);
    if (code == 0)
      code = CALL(cuPointerSetAttribute, &on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, at);
    if (code == 0 && before != 0) code = CALL(cuMemFree_v2, before);
    before = at;
  }
  return code != 0 ? code : (int)CALL(cuMemFree_v2, before);
}

static CUmemLocation of_device(int number) {
  return (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = number};
}

/* So many allocations of so many bytes, mapped one after the other. */
static void map_pieces(size_t bytes, int pieces) {
  const CUmemAllocationProp what = {
      .type = CU_MEM_ALLOCATION_TYPE_PINNED,
      .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
      .location = of_device(0),
      .allocFlags.gpuDirectRDMACapable = 1};
  const CUmemAccessDesc access = {of_device(0), CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  address at = 0;
  int code = CALL(cuMemAddressReserve, &at, bytes * (size_t)pieces, 0, 0, 0);
  for (int i = 0; code == 0 && i < pieces; ++i) {
    address handle = 0;
    code = CALL(cuMemCreate, &handle, bytes, &what, 0);
    if (code == 0) code = CALL(cuMemMap, at + bytes * (size_t)i, bytes, 0, handle, 0);
    if (code == 0) code = CALL(cuMemRelease, handle);
  }
  if (code == 0) code = CALL(cuMemSetAccess, at, bytes * (size_t)pieces, &access, 1);
  add(code, at, bytes * (size_t)pieces);
}

/* The whole of a handle, at an address of its own. */
static void map_it(address handle, size_t bytes) {
  const CUmemAccessDesc access = {of_device(0), CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  address at = 0;
  int code = CALL(cuMemAddressReserve, &at, bytes, 0, 0, 0);
  if (code == 0) code = CALL(cuMemMap, at, bytes, 0, handle, 0);
  if (code == 0) code = CALL(cuMemSetAccess, at, bytes, &access, 1);
  add(code, at, bytes);
}

/* An array by its sides and channels: in the first form of any format, in the second of floats
 * with a depth or layers, in the third with levels. */
static void make_array(const char* word, const char* rest) {
  void* made = NULL;
  size_t width = 0, height = 0, depth = 0;
  unsigned channels = 1, format = CU_AD_FORMAT_FLOAT, flags = 0, levels = 0;
  int code = 0;
  if (!strcmp(word, "array")) {
    sscanf(rest, "%zu %zu %u %x", &width, &height, &channels, &format);
    const CUDA_ARRAY_DESCRIPTOR what = {width, height, (CUarray_format)format, channels};
    code = CALL(cuArrayCreate_v2, (CUarray*)&made, &what);
  } else {
    sscanf(rest, "%zu %zu %zu %u %u", &width, &height, &depth, &flags, &levels);
    const CUDA_ARRAY3D_DESCRIPTOR what = {
        width, height, depth, CU_AD_FORMAT_FLOAT, channels, flags};
    code = !strcmp(word, "levels")
               ? CALL(cuMipmappedArrayCreate, (CUmipmappedArray*)&made, &what, levels)
               : CALL(cuArray3DCreate_v2, (CUarray*)&made, &what);
  }
  add(code, (address)made, 0);
}

/* A file stands for memory of another interface: only the simulator takes it. */
static void import_it(size_t size) {
  const int fd = memfd_create("external", MFD_CLOEXEC);
  const CUDA_EXTERNAL_MEMORY_HANDLE_DESC what = {
      .type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD, .handle.fd = fd, .size = size};
  CUexternalMemory made = NULL;
  if (ftruncate(fd, (off_t)size) != 0) exit(3);
  const int code = CALL(cuImportExternalMemory, &made, &what);
  if (code != 0) close(fd);
  add(code, (address)made, 0);
}

static CUstream capturing; /* the stream that captures */

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
    const int code = CALL(cuMemAlloc_v2, &at, (size_t)a);
    add(code, at, (size_t)a);
  } else if (!strcmp(word, "alloc_async")) {
    address at = 0;
    const int code = CALL(cuMemAllocAsync, &at, (size_t)a, NULL);
    add(code, at, (size_t)a);
  } else if (!strcmp(word, "alloc_without_context")) { /* on a stream that was made with one */
    address at = 0;
    CUstream stream = NULL;
    CUcontext current = NULL;
    CALL(cuStreamCreate, &stream, 1);
    CALL(cuCtxGetCurrent, &current);
    CALL(cuCtxSetCurrent, NULL);
    const int code = CALL(cuMemAllocAsync, &at, (size_t)a, stream);
    CALL(cuCtxSetCurrent, current);
    add(code, at, (size_t)a);
  } else if (!strcmp(word, "pin")) {
    void* at = NULL;
    const int code = CALL(cuMemAllocHost_v2, &at, (size_t)a);
    add(code, (address)at, (size_t)a);
  } else if (!strcmp(word, "write")) { /* all of it, by the host */
    memset((void*)memory[n], 7, sizes[n]);
    printf("0\n");
  } else if (!strcmp(word, "unpin")) {
    printf("%d\n", CALL(cuMemFreeHost, (void*)memory[n]));
  } else if (!strcmp(word,
                     "poke")) { /* the host's own write, so many bytes from the beginning */
    *(volatile unsigned char*)(memory[n] + strtoll(strchr(rest + 1, ' '), NULL, 10)) = 7;
    printf("0\n");
  } else if (!strcmp(word, "alloc_managed")) {
    address at = 0;
    const int code = CALL(cuMemAllocManaged, &at, (size_t)a, 1);
    add(code, at, (size_t)a);
  } else if (!strcmp(word, "alloc_pitch")) {
    address at = 0;
    size_t pitch = 0;
    const int code = CALL(cuMemAllocPitch_v2, &at, &pitch, (size_t)a, (size_t)b, 4);
    add(code, at, (size_t)b * pitch);
  } else if (!strcmp(word, "create")) {
    const CUmemAllocationProp what = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .requestedHandleTypes = (CUmemAllocationHandleType)c,
                                      .location = of_device((int)b)};
    address handle = 0;
    const int code = CALL(cuMemCreate, &handle, (size_t)a, &what, 0);
    add(code, handle, (size_t)a);
  } else if (!strcmp(word, "map")) {
    map_it(memory[n], sizes[n]);
  } else if (!strcmp(word, "unmap")) {
    printf("%d\n", CALL(cuMemUnmap, memory[n], sizes[n]));
  } else if (!strcmp(word, "retain")) {
    address handle = 0;
    const int code = CALL(cuMemRetainAllocationHandle, &handle, (void*)memory[n]);
    add(code, handle, sizes[n]);
  } else if (!strcmp(word, "export_handle")) {
    int fd = -1;
    const int code = CALL(cuMemExportToShareableHandle, &fd, memory[n], 1, 0);
    if (code == 0) close(fd);
    printf("%d\n", code);
  } else if (!strcmp(word, "export_fd")) {
    int fd = -1;
    const int code = CALL(cuMemExportToShareableHandle, &fd, memory[n], 1, 0);
    printf("%d %d\n", code, fd);
  } else if (!strcmp(word, "import_fd")) { /* PROCESS DESCRIPTOR BYTES */
    address handle = 0;
    const int process = (int)syscall(SYS_pidfd_open, n, 0);
    const int fd = (int)syscall(SYS_pidfd_getfd, process, (int)b, 0);
    if (process >= 0) close(process);
    const int code = CALL(cuMemImportFromShareableHandle, &handle, (void*)(size_t)fd, 1);
    if (fd >= 0) close(fd);
    add(code, handle, (size_t)c);
  } else if (!strcmp(word,
                     "graph_memory")) { /* a graph that allocates and frees, and has run */
    address at = 0;
    CUstream stream = NULL;
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    int code = CALL(cuStreamCreate, &stream, 1);
    if (code == 0) code = CALL(cuStreamBeginCapture_v2, stream, 2);
    if (code == 0) code = CALL(cuMemAllocAsync, &at, (size_t)a, stream);
    if (code == 0) code = CALL(cuMemFreeAsync, at, stream);
    if (code == 0) code = CALL(cuStreamEndCapture, stream, &graph);
    if (code == 0) code = CALL(cuGraphInstantiateWithFlags, &exec, graph, 0);
    if (code == 0) code = CALL(cuGraphLaunch, exec, stream);
    if (code == 0) code = CALL(cuCtxSynchronize);
    if (graph != NULL) CALL(cuGraphDestroy, graph);
    add(code, (address)exec, (size_t)a);
  } else if (!strcmp(word, "begin_capture")) { /* that refuses every thread's unsafe calls */
    int code = CALL(cuStreamCreate, &capturing, 1);
    if (code == 0) code = CALL(cuStreamBeginCapture_v2, capturing, 0);
    printf("%d\n", code);
  } else if (!strcmp(word, "end_capture")) {
    CUgraph graph = NULL;
    const int code = CALL(cuStreamEndCapture, capturing, &graph);
    if (graph != NULL) CALL(cuGraphDestroy, graph);
    printf("%d\n", code);
  } else if (!strcmp(word, "end_graph")) {
    printf("%d\n", CALL(cuGraphExecDestroy, (void*)memory[n]));
  } else if (!strcmp(word, "properties")) {
    CUmemAllocationProp what = {0};
    const int code = CALL(cuMemGetAllocationPropertiesFromHandle, &what, memory[n]);
    printf("%d %d %d\n", code, what.location.type, what.location.id);
  } else if (!strcmp(word, "pieces")) {
    map_pieces((size_t)a, (int)b);
  } else if (!strcmp(word, "release")) {
    printf("%d\n", CALL(cuMemRelease, memory[n]));
  } else if (!strcmp(word, "array") || !strcmp(word, "array3") || !strcmp(word, "levels")) {
    make_array(word, rest);
  } else if (!strcmp(word, "external")) {
    import_it((size_t)a);
  } else if (!strcmp(word, "end_array")) {
    printf("%d\n", CALL(cuArrayDestroy, (void*)memory[n]));
  } else if (!strcmp(word, "end_levels")) {
    printf("%d\n", CALL(cuMipmappedArrayDestroy, (void*)memory[n]));
  } else if (!strcmp(word, "end_external")) {
    printf("%d\n", CALL(cuDestroyExternalMemory, (void*)memory[n]));
  } else if (!strcmp(word, "free")) {
    printf("%d\n", CALL(cuMemFree_v2, memory[n] + b));
  } else if (!strcmp(word, "forget")) {
    if (forgotten_count < 64) forgotten[forgotten_count++] = (int)n;
    printf("0\n");
  } else if (!strcmp(word, "leak")) { /* host memory */
    char* const lost = malloc((size_t)a);
    printf("%d\n", lost == NULL);
    if (lost != NULL) memset(lost, 7, (size_t)a);
  } else if (!strcmp(word, "fill")) {
    printf("%d\n", CALL(cuMemsetD8_v2, memory[n] + c, (unsigned char)b, sizes[n]));
  } else if (!strcmp(word, "mix")) {
    mix(memory[n], sizes[n], (int)b);
  } else if (!strcmp(word, "mixed")) {
    check_mixed(memory[n], sizes[n], (int)b);
  } else if (!strcmp(word, "hold")) { /* the default stream, for so many seconds */
    printf("%d\n", CALL(cuLaunchHostFunc, NULL, sleep_it, (void*)(size_t)a));
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
    printf("%d\n", CALL(cuIpcCloseMemHandle, memory[n] + b));
  } else if (!strcmp(word, "range")) {
    address base = 0;
    size_t size = 0;
    const int code = CALL(cuMemGetAddressRange_v2, &base, &size, memory[n] + b);
    printf("%d %lld %zu\n", code, (long long)(memory[n] - base), size);
  } else if (!strcmp(word, "attribute")) {
    address value = 0;
    const int code = CALL(cuPointerGetAttribute, &value, (int)b, memory[n]);
    printf("%d %llu\n", code, value);
  } else if (!strcmp(word, "texture")) {
    CUDA_RESOURCE_DESC what = {.resType = CU_RESOURCE_TYPE_LINEAR};
    const CUDA_TEXTURE_DESC how = {0};
    CUtexObject made = 0;
    what.res.linear.devPtr = memory[n];
    what.res.linear.format = CU_AD_FORMAT_FLOAT;
    what.res.linear.numChannels = 1;
    what.res.linear.sizeInBytes = (size_t)b;
    printf("%d\n", CALL(cuTexObjectCreate, &made, &what, &how, NULL));
  } else if (!strcmp(word, "access")) {
    const CUmemLocation where = of_device((int)b);
    address flags = 0;
    const int code = CALL(cuMemGetAccess, &flags, &where, memory[n]);
    printf("%d %llu\n", code, flags);
  } else if (!strcmp(word, "dmabuf")) {
    int fd = -1;
    const int code = CALL(cuMemGetHandleForAddressRange, &fd, memory[n], (size_t)b, 1, 0);
    if (code == 0) close(fd);
    printf("%d\n", code);
  } else if (!strcmp(word, "info")) {
    size_t available = 0, total = 0;
    const int code = CALL(cuMemGetInfo_v2, &available, &total);
    printf("%d %zu %zu\n", code, available, total);
  } else if (!strcmp(word, "pool_used")) { /* of the device's default pool */
    CUmemoryPool pool = NULL;
    unsigned long long used = 0;
    int code = CALL(cuDeviceGetDefaultMemPool, &pool, (int)a);
    if (code == 0) code = CALL(cuMemPoolGetAttribute, pool, 7, &used);
    printf("%d %llu\n", code, used);
  } else if (!strcmp(word, "sync")) {
    printf("%d\n", CALL(cuCtxSynchronize));
  } else if (!strcmp(word, "sync_v2")) {
    CUcontext context = NULL;
    const int code = CALL(cuCtxGetCurrent, &context);
    CUresult (*of_context)(CUcontext) = /* of a toolkit of 13 */
        (CUresult(*)(CUcontext))dlsym(driver, "cuCtxSynchronize_v2");
    printf("%d\n", code != 0 ? code : (int)of_context(context));
  } else if (!strcmp(word, "device")) {
    CUcontext context = NULL;
    int code = CALL(cuDevicePrimaryCtxRetain, &context, (int)a);
    if (code == 0) code = CALL(cuCtxSetCurrent, context);
    printf("%d\n", code);
  } else if (!strcmp(word, "context")) {
    const int code = CALL(cuCtxCreate_v2, &contexts[context_count], 0, (int)a);
    printf("%d %d\n", code, context_count++);
  } else if (!strcmp(word, "current")) {
    printf("%d\n", CALL(cuCtxSetCurrent, contexts[n]));
  } else if (!strcmp(word, "destroy")) {
    printf("%d\n", CALL(cuCtxDestroy_v2, contexts[n]));
  } else if (!strcmp(word, "reset")) {
    printf("%d\n", CALL(cuDevicePrimaryCtxReset_v2, (int)a));
  } else if (!strcmp(word, "sync_memops")) {
    printf("%d\n", sync_memops(a));
  } else if (!strcmp(word, "active")) { /* whether a device has its primary context */
    unsigned flags = 0;
    int active = -1;
    const int code = CALL(cuDevicePrimaryCtxGetState, (int)a, &flags, &active);
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
  driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == NULL || CALL(cuInit, 0) != 0) return 77;
  printf("0 %d\n", (int)getpid());
  while (fgets(line, sizeof line, stdin) != NULL && obey(line)) {
  }
  return 0;
}
