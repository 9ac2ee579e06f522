// SPDX-License-Identifier: MIT
// Threads that make memory by handles, map it, use it, ask about it and end it, while another
// puts the process to sleep and wakes it. Prints a line for each wrong answer or byte, and how
// often the process slept.
#include "interpose/api/custash.h"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>

#include <cuda.h>
#include <dlfcn.h>

namespace {

using Handle = CUmemGenericAllocationHandle;

constexpr std::size_t kBytes = 2 << 20;
constexpr int kSlots = 3;
constexpr int kRounds = 2000;
std::atomic<int> working{3};
std::atomic<int> wrong{0};

#define CALLS(X)                            \
  X(cuInit)                                 \
  X(cuDevicePrimaryCtxRetain)               \
  X(cuCtxSetCurrent)                        \
  X(cuCtxSynchronize)                       \
  X(cuMemAddressReserve)                    \
  X(cuMemAddressFree)                       \
  X(cuMemCreate)                            \
  X(cuMemMap)                               \
  X(cuMemSetAccess)                         \
  X(cuMemUnmap)                             \
  X(cuMemRelease)                           \
  X(cuMemRetainAllocationHandle)            \
  X(cuMemGetAllocationPropertiesFromHandle) \
  X(cuPointerGetAttribute)
#define POINTER(name) decltype(&::name) name;

struct Driver {
  CALLS(POINTER)
  decltype(&cuMemsetD8_v2) set;
  decltype(&cuMemcpyDtoH_v2) copy;
} cu;

template <typename Function>
void find(Function* out, const char* name) {
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  *out = reinterpret_cast<Function>(dlsym(library, name));
}

void expect(bool right, const char* what) {
  if (!right && wrong.fetch_add(1) < 10) std::printf("wrong: %s\n", what);
}

#define EXPECT(...) expect((__VA_ARGS__), #__VA_ARGS__)

struct Slot {
  CUdeviceptr at = 0;
  Handle handle = 0;
  bool kept = false;
  int value = 0;  // 0: nothing is mapped
};

void begin(Slot& slot, int device, unsigned number) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
  const CUmemAccessDesc access{.location = properties.location,
                               .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  EXPECT(cu.cuMemCreate(&slot.handle, kBytes, &properties, 0) == 0);
  EXPECT(cu.cuMemMap(slot.at, kBytes, 0, slot.handle, 0) == 0);
  EXPECT(cu.cuMemSetAccess(slot.at, kBytes, &access, 1) == 0);
  slot.kept = number % 2 != 0;
  slot.value = static_cast<int>(number % 250) + 1;
  if (!slot.kept) EXPECT(cu.cuMemRelease(slot.handle) == 0);
  EXPECT(cu.set(slot.at, static_cast<unsigned char>(slot.value), kBytes) == 0);
  EXPECT(cu.cuCtxSynchronize() == 0);
}

void end(Slot& slot) {
  EXPECT(cu.cuMemUnmap(slot.at, kBytes) == 0);
  if (slot.kept) EXPECT(cu.cuMemRelease(slot.handle) == 0);
  slot.value = 0;
}

void look(const Slot& slot, int device, unsigned number) {
  std::vector<unsigned char> seen(4096);
  CUmemAllocationProp properties{};
  Handle again = 0;
  int ordinal = -1;
  switch (number % 4) {
    case 0:
      if (!slot.kept) break;
      EXPECT(cu.cuMemGetAllocationPropertiesFromHandle(&properties, slot.handle) == 0);
      EXPECT(properties.location.id == device);
      break;
    case 1:
      EXPECT(cu.cuMemRetainAllocationHandle(&again, reinterpret_cast<void*>(slot.at)) == 0);
      EXPECT(!slot.kept || again == slot.handle);
      EXPECT(cu.cuMemRelease(again) == 0);
      break;
    case 2:
      EXPECT(cu.cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, slot.at) ==
             0);
      EXPECT(ordinal == device);
      break;
    default:
      EXPECT(cu.copy(seen.data(), slot.at + (number % 512) * 4096, seen.size()) == 0);
      for (const unsigned char each : seen)
        if (each != slot.value) return expect(false, "a byte");
  }
}

void work(int id, CUcontext context) {
  const int device = id % 2;
  unsigned number = 4711U * static_cast<unsigned>(id + 1);
  EXPECT(cu.cuCtxSetCurrent(context) == 0);
  std::vector<Slot> slots(kSlots);
  for (Slot& each : slots)
    EXPECT(cu.cuMemAddressReserve(&each.at, kBytes, 0, 0, 0) == 0);
  for (int i = 0; i < kRounds; ++i) {
    number = number * 1664525U + 1013904223U;
    Slot& slot = slots[(number >> 8U) % kSlots];
    if (slot.value == 0)
      begin(slot, device, number >> 16U);
    else if ((number >> 12U) % 2 == 0)
      end(slot);
    else
      look(slot, device, number >> 16U);
  }
  for (Slot& each : slots) {
    if (each.value != 0) {
      look(each, device, 3);
      end(each);
    }
    EXPECT(cu.cuMemAddressFree(each.at, kBytes) == 0);
  }
  --working;
}

}  // namespace

int main() {
#define FIND(name) find(&cu.name, #name);
  CALLS(FIND)
  find(&cu.set, "cuMemsetD8_v2");
  find(&cu.copy, "cuMemcpyDtoH_v2");
  EXPECT(cu.cuInit(0) == 0);
  std::vector<CUcontext> contexts(2);
  for (int i = 0; i < 2; ++i)
    EXPECT(cu.cuDevicePrimaryCtxRetain(&contexts[static_cast<std::size_t>(i)], i) == 0);
  std::vector<std::thread> threads;
  threads.reserve(3);
  for (int i = 0; i < 3; ++i)
    threads.emplace_back(work, i, contexts[static_cast<std::size_t>(i % 2)]);
  decltype(&custash_sleep) sleep = nullptr;
  sleep = reinterpret_cast<decltype(sleep)>(dlsym(RTLD_DEFAULT, "custash_sleep"));
  int slept = 0;
  for (int turn = 0; working.load() != 0; ++turn) {
    if (sleep != nullptr && sleep(turn % 3 - 1) == CUSTASH_SUCCESS) ++slept;
    std::this_thread::sleep_for(std::chrono::microseconds(turn % 5 * 20));
  }
  for (std::thread& each : threads)
    each.join();
  std::printf("slept %d wrong %d\n", slept, wrong.load());
  return wrong.load() == 0 ? 0 : 1;
}
