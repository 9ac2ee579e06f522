// SPDX-License-Identifier: MIT
// Launches whose parameters hold, or do not hold, an address of pinned memory: in every way in
// which a program can pass it. Each line names a way and says whether a free of something else
// has waited for the kernel: 0 it has, 600 it has not. Bare it always has. Argument: which
// part.
#include "tests/process/parameters.hpp"

#include "tests/process/calls.hpp"
#include "tests/sim/detector_abi.h"

#include <bit>
#include <cstdint>
#include <cstring>

#include <sys/mman.h>

namespace {

using namespace calls;

constexpr std::size_t kBytes = 64 << 10;
constexpr unsigned char kServed = 0xCC;

CUdeviceptr device(std::size_t bytes = kBytes) {
  CUdeviceptr out = 0;
  CALL(cuMemAlloc_v2, &out, bytes);
  return out;
}

void* pinned(std::size_t bytes = kBytes) {
  void* out = nullptr;
  CALL(cuMemHostAlloc, &out, bytes, 0U);
  return out;
}

CUmodule module() {
  CUmodule out = nullptr;
  CALL(cuModuleLoadData, &out, static_cast<const void*>("image"));
  return out;
}

void* load_library() {
  void* out = nullptr;
  CALL(cuLibraryLoadData,
       &out,
       static_cast<const void*>("image"),
       nullptr,
       nullptr,
       0U,
       nullptr,
       nullptr,
       0U);
  return out;
}

CUfunction function(CUmodule of, const char* name) {
  CUfunction out = nullptr;
  CALL(cuModuleGetFunction, &out, of, name);
  return out;
}

// Something else is freed while the launch's kernel runs.
void say(const char* way, CUstream on, CUdeviceptr other) {
  CALL(cuMemFree_v2, other);
  std::printf("%s %d\n", way, call("cuStreamQuery", on));
  CALL(cuCtxSynchronize);
}

template <typename Launch>
void way(const char* name, CUstream on, Launch launched) {
  const CUdeviceptr other = device();
  need(launched(), name);
  say(name, on, other);
}

void launches() {
  const CUmodule code = module();
  const CUstream s = stream();
  const CUfunction one = function(code, "one");
  const CUfunction by_value = function(code, "by_value");
  const CUfunction large = function(code, "large");
  const CUdeviceptr mine = device();
  auto* const host = static_cast<char*>(pinned());
  void* const inside = host + kBytes - 8;
  unsigned number = 7;

  way("device", s, [&] { return launch(one, s, {&mine}); });
  way("parameter", s, [&] { return launch(one, s, {&host}); });
  way("inside", s, [&] { return launch(one, s, {&inside}); });
  ByValue value{};
  value.nested[1] = reinterpret_cast<void*>(mine);
  way("by_value_device", s, [&] { return launch(by_value, s, {&number, &value}); });
  value.nested[3] = inside;
  way("by_value", s, [&] { return launch(by_value, s, {&number, &value}); });
  void* words[512] = {};
  way("large_device", s, [&] { return launch(large, s, {words}); });
  words[511] = host;
  way("large", s, [&] { return launch(large, s, {words}); });

  std::size_t bytes = sizeof host;
  const void* buffer = &mine;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER,
                   const_cast<void*>(buffer),
                   CU_LAUNCH_PARAM_BUFFER_SIZE,
                   &bytes,
                   CU_LAUNCH_PARAM_END};
  way("extra_device", s, [&] { return launch(one, s, nullptr, extra); });
  extra[1] = const_cast<char**>(&host);
  way("extra", s, [&] { return launch(one, s, nullptr, extra); });

  void* params[] = {const_cast<char**>(&host)};
  void** const all = params;
  way("ex", s, [&] { return launch_ex(one_thread_on(s), one, all); });
  way("cooperative", s, [&] {
    return call("cuLaunchCooperativeKernel", one, 1U, 1U, 1U, 1U, 1U, 1U, 0U, s, all);
  });

  void* kernels = load_library();
  CUfunction kernel = nullptr;
  CALL(cuLibraryGetKernel, &kernel, kernels, "one");
  way("kernel", s, [&] { return launch(kernel, s, params); });
  CUfunction of_kernel = nullptr;
  CALL(cuKernelGetFunction, &of_kernel, kernel);
  way("function_of_kernel", s, [&] { return launch(of_kernel, s, params); });

  // By another way than the pinned cache.
  void* registered = std::aligned_alloc(4096, kBytes);
  CALL(cuMemHostRegister_v2, registered, kBytes, 0U);
  way("registered", s, [&] { return launch(one, s, {&registered}); });
  CALL(cuMemHostUnregister, registered);
  way("unregistered", s, [&] { return launch(one, s, {&registered}); });
  CALL(cuMemFreeHost, static_cast<void*>(host));
}

// A handle that a later module's function bears again, which has other parameters.
void reload() {
  const CUstream s = stream();
  void* const host = pinned();
  const CUmodule first = module();
  const CUfunction numbers = function(first, "numbers");
  const unsigned number = 7;
  way("numbers", s, [&] { return launch(numbers, s, {&number, &number}); });
  CALL(cuModuleUnload, first);
  const CUmodule second = module();
  const CUfunction one = function(second, "one");
  std::printf("handle %s\n", one == numbers ? "again" : "another");
  way("reloaded", s, [&] { return launch(one, s, {&host}); });

  void* kernels = nullptr;
  CUfunction kernel = nullptr;
  CUfunction other = nullptr;
  const auto load = [&](const char* name, CUfunction* out) {
    kernels = load_library();
    CALL(cuLibraryGetKernel, out, kernels, name);
  };
  load("numbers", &kernel);
  way("numbers", s, [&] { return launch(kernel, s, {&number, &number}); });
  CALL(cuLibraryUnload, kernels);
  load("one", &other);
  std::printf("handle %s\n", other == kernel ? "again" : "another");
  way("reloaded", s, [&] { return launch(other, s, {&host}); });
}

// Layouts that cannot be read: whether kernels count is known of the process as a whole.
void unreadable() {
  const CUstream s = stream();
  const CUfunction unknown = function(module(), "undeclared_parameters");
  void* const host = pinned();
  way("before", s, [&] { return launch(unknown, s, {&host}); });
  CUdeviceptr mapped = 0;
  CALL(cuMemHostGetDevicePointer_v2, &mapped, host, 0U);
  way("after", s, [&] { return launch(unknown, s, {&host}); });
}

// Memory that kernels and the host share comes while one kernel runs, and before another one.
void before(const char* how) {
  const CUstream s = stream();
  const CUfunction one = function(module(), "one");
  const CUdeviceptr mine = device();
  const CUdeviceptr other = device();
  void* host = nullptr;
  CUdeviceptr shared = 0;
  need(launch(one, s, {&mine}), "one");
  if (std::strcmp(how, "managed") == 0) {
    CALL(cuMemAllocManaged, &shared, kBytes, unsigned{CU_MEM_ATTACH_GLOBAL});
  } else if (std::strcmp(how, "registered") == 0) {
    host = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CALL(cuMemHostRegister_v2, host, kBytes, unsigned{CU_MEMHOSTREGISTER_DEVICEMAP});
  } else {
    CALL(cuMemHostAlloc, &host, kBytes, unsigned{CU_MEMHOSTALLOC_DEVICEMAP});
  }
  if (std::strcmp(how, "asked") == 0) CALL(cuMemHostGetDevicePointer_v2, &shared, host, 0U);
  if (shared == 0) shared = reinterpret_cast<CUdeviceptr>(host);
  say("submitted_before", s, other);
  way("not_given", s, [&] { return launch(one, s, {&mine}); });
  way("given", s, [&] { return launch(one, s, {&shared}); });
  way("given_before", s, [&] { return launch(one, s, {&mine}); });
}

// Option free:parameters, once kernels and host share memory.
void narrow() {
  const CUmodule code = module();
  const CUstream s = stream();
  const CUfunction one = function(code, "one");
  const CUfunction unknown = function(code, "undeclared_parameters");
  const CUdeviceptr mine = device();
  CUdeviceptr managed = 0;
  CALL(cuMemAllocManaged, &managed, kBytes, unsigned{CU_MEM_ATTACH_GLOBAL});
  way("device", s, [&] { return launch(one, s, {&mine}); });
  way("managed", s, [&] { return launch(one, s, {&managed}); });
  way("unknown", s, [&] { return launch(unknown, s, {&mine}); });
  CALL(cuMemFree_v2, managed);
  way("freed", s, [&] { return launch(one, s, {&managed}); });
  CUdeviceptr global = 0;
  std::size_t bytes = 0;
  CALL(cuLibraryGetManaged, &global, &bytes, load_library(), "variable");
  way("variable", s, [&] { return launch(one, s, {&mine}); });
}

// A kernel's parameters are asked for as a kernel's.
void kernel() {
  const CUstream s = stream();
  void* const host = pinned();
  void* kernels = load_library();
  CUfunction kernel = nullptr;
  CALL(cuLibraryGetKernel, &kernel, kernels, "one");
  way("kernel", s, [&] { return launch(kernel, s, {&host}); });
}

// Memory that the program has by other means than CUDA, and kernels may reach. The last four
// are no such memory.
void pageable() {
  const CUmodule code = module();
  const CUstream s = stream();
  const CUfunction one = function(code, "one");
  const CUfunction by_value = function(code, "by_value");
  int local = 0;
  void* const stack = &local;
  void* const heap = std::malloc(100);
  void* const large = std::malloc(std::size_t{64} << 20U);
  constexpr std::size_t kMapped = std::size_t{1} << 20U;
  void* const mapped = mmap(nullptr, kMapped, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  // Where a system could map, and does not: a tebibyte above the lowest of its upper half.
  const auto gone =
      std::bit_ceil(reinterpret_cast<std::uintptr_t>(stack)) / 2 + (std::uintptr_t{1} << 40U);
  way("heap", s, [&] { return launch(one, s, {&heap}); });
  way("large", s, [&] { return launch(one, s, {&large}); });
  way("mapped", s, [&] { return launch(one, s, {&mapped}); });
  way("stack", s, [&] { return launch(one, s, {&stack}); });
  unsigned number = 7;
  ByValue value{};
  value.nested[3] = heap;
  way("by_value", s, [&] { return launch(by_value, s, {&number, &value}); });

  const CUdeviceptr mine = device();
  CUmemoryPool pool = nullptr;
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CALL(cuMemPoolCreate, &pool, const_cast<const CUmemPoolProps*>(&properties));
  CUdeviceptr of_driver = 0;
  CALL(cuMemAllocFromPoolAsync, &of_driver, std::size_t{kBytes}, pool, s);
  const std::uint64_t two_numbers = std::uint64_t{20'000} << 32U | 30'000U;
  way("device", s, [&] { return launch(one, s, {&mine}); });
  way("pool", s, [&] { return launch(one, s, {&of_driver}); });
  way("numbers", s, [&] { return launch(one, s, {&two_numbers}); });
  way("unmapped", s, [&] { return launch(one, s, {&gone}); });
}

// Two kernels that write the same memory, the second by a programmatic launch, which may begin
// before the first has ended: the race detector sees that, or the order that custash has given
// it.
void early(const char* how) {
  const auto* const detector = reinterpret_cast<const custash_sim_detector_calls* (*)()>(
      dlsym(library, "custash_sim_detector"))();
  const CUfunction touch = function(module(), "touch");
  const CUstream s = stream();
  CUdeviceptr mine = device();
  CUdeviceptr other = device();
  void* host = pinned();
  detector->allocated(reinterpret_cast<const void*>(mine), kBytes, 0, nullptr);
  CUlaunchAttribute attribute{};
  attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
  attribute.value.programmaticStreamSerializationAllowed = 1;
  CUlaunchConfig config = one_thread_on(s);
  config.attrs = &attribute;
  config.numAttrs = 1;
  void* params[] = {
      &mine,
      std::strcmp(how, "host") == 0 ? static_cast<void*>(&host) : static_cast<void*>(&other)};
  need(launch(touch, s, {&mine, &other}), "first");
  need(launch_ex(config, touch, params), "cuLaunchKernelEx");
  CALL(cuCtxSynchronize);
  std::printf("early %s\n", detector->count(nullptr) != 0 ? "yes" : "no");
}

struct KernelNode {
  CUDA_KERNEL_NODE_PARAMS_v1 base;
  void* kernel;
  CUcontext context;
};

// A graph of one kernel. The first line of each process: a node, once added, counts for good.
void graph(const char* how) {
  const CUmodule code = module();
  const CUstream s = stream();
  CUdeviceptr mine = device();
  void* host = pinned();
  void* harmless[] = {&mine};
  void* reaching[] = {&host};
  KernelNode node{};
  node.base.func = function(code, "one");
  node.base.gridDimX = node.base.gridDimY = node.base.gridDimZ = 1;
  node.base.blockDimX = node.base.blockDimY = node.base.blockDimZ = 1;
  node.base.kernelParams = harmless;
  const bool captured = std::strcmp(how, "captured") == 0;
  const bool generic = std::strcmp(how, "node") == 0;
  CUgraph graph = nullptr;
  CUgraphNode added = nullptr;
  CUgraphExec exec = nullptr;
  const auto instantiate = [&] {
    CALL(cuGraphInstantiateWithFlags, &exec, graph, 0ULL);
    way(how, s, [&] { return call("cuGraphLaunch", exec, s); });
  };
  if (captured) {
    for (void** const params : {harmless, reaching}) {
      CALL(cuStreamBeginCapture_v2, s, CU_STREAM_CAPTURE_MODE_RELAXED);
      need(launch(node.base.func, s, params), "captured launch");
      CALL(cuStreamEndCapture, s, &graph);
      instantiate();
    }
    return;
  }
  const auto add = [&] {
    const auto* const none = static_cast<const CUgraphNode*>(nullptr);
    if (!generic)
      return call("cuGraphAddKernelNode_v2",
                  &added,
                  graph,
                  none,
                  std::size_t{0},
                  static_cast<const void*>(&node));
    alignas(8) unsigned char params[256] = {};
    std::memcpy(params + 16, &node, sizeof node);  // the type of a kernel is 0
    return call(
        "cuGraphAddNode", &added, graph, none, std::size_t{0}, static_cast<void*>(params));
  };
  CALL(cuGraphCreate, &graph, 0U);
  need(add(), "add");
  instantiate();
  node.base.kernelParams = reaching;
  if (std::strcmp(how, "set") == 0) {
    CALL(cuGraphKernelNodeSetParams_v2, added, static_cast<const void*>(&node));
    instantiate();
  } else if (std::strcmp(how, "set_exec") == 0) {
    CALL(cuGraphExecKernelNodeSetParams_v2, exec, added, static_cast<const void*>(&node));
    way(how, s, [&] { return call("cuGraphLaunch", exec, s); });
  } else {
    need(add(), "add");
    instantiate();
  }
}

// A kernel that runs already is handed memory whose last owner's kernel may still write it. The
// simulator's kernels do what they do at their end; the host writes in the running one's place.
void mailbox(const char* how) {
  constexpr std::size_t kLarge = std::size_t{96}
                                 << 20;  // more than is had beside what is in use
  const CUmodule code = module();
  const CUfunction fill = function(code, "fill");
  const CUfunction serve = function(code, "serve");
  const CUstream a = stream();
  const CUstream b = stream();
  auto* box = static_cast<CUdeviceptr*>(pinned());
  const CUdeviceptr p = device(kLarge);
  const unsigned bytes = kLarge;
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  const bool in_graph = std::strcmp(how, "graph") == 0;
  if (in_graph) {
    CALL(cuStreamBeginCapture_v2, b, CU_STREAM_CAPTURE_MODE_RELAXED);
    need(launch(serve, b, {&box}), "serve");
    CALL(cuStreamEndCapture, b, &graph);
    CALL(cuGraphInstantiateWithFlags, &exec, graph, 0ULL);
  }
  need(launch(fill, a, {&p, &bytes}), "fill");
  CALL(cuMemFree_v2, p);
  need(in_graph ? call("cuGraphLaunch", exec, b) : launch(serve, b, {&box}), "serve");
  const CUdeviceptr q = device(kLarge);
  std::printf("# %s\n", q == p ? "again" : "another");
  *box = q;
  std::printf("serves %s\n", call("cuStreamQuery", b) == CUDA_ERROR_NOT_READY ? "yes" : "no");
  auto* const memory = reinterpret_cast<unsigned char*>(q);
  std::memset(memory, kServed, kLarge);
  CALL(cuStreamSynchronize, b);
  CALL(cuStreamSynchronize, a);
  std::printf("kept %s\n",
              memory[0] == kServed && memory[kLarge - 1] == kServed ? "yes" : "no");
}

}  // namespace

int main(int argc, char** argv) {
  const char* const part = argc > 1 ? argv[1] : "";
  const char* const how = argc > 2 ? argv[2] : "";
  if (!start_driver()) return 2;
  if (std::strcmp(part, "launches") == 0) launches();
  if (std::strcmp(part, "reload") == 0) reload();
  if (std::strcmp(part, "unreadable") == 0) unreadable();
  if (std::strcmp(part, "before") == 0) before(how);
  if (std::strcmp(part, "narrow") == 0) narrow();
  if (std::strcmp(part, "kernel") == 0) kernel();
  if (std::strcmp(part, "pageable") == 0) pageable();
  if (std::strcmp(part, "early") == 0) early(how);
  if (std::strcmp(part, "graph") == 0) graph(how);
  if (std::strcmp(part, "mailbox") == 0) mailbox(how);
  return 0;
}
