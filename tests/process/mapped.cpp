// SPDX-License-Identifier: MIT
// Threads that make memory by handles, map it, use it, ask about it and end it, while another
// puts the process to sleep and wakes it. Prints a line for each wrong answer or byte, and how
// often the process slept.
#include "interpose/api/custash.h"
#include "tests/process/calls.hpp"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>

#include <cuda.h>
#include <dlfcn.h>

namespace {

using Handle = CUmemGenericAllocationHandle;
using calls::call;

constexpr std::size_t kBytes = 2 << 20;
constexpr int kSlots = 3;
constexpr int kRounds = 2000;
std::atomic<int> working{3};
std::atomic<int> wrong{0};

void expect(bool right, const char* what) {
  if (!right && wrong.fetch_add(1) < 10) std::printf("wrong: %s\n", what);
}

#define EXPECT(...) expect((__VA_ARGS__), #__VA_ARGS__)
#define DONE(symbol, ...) expect(call(#symbol, ##__VA_ARGS__) == 0, #symbol)

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
  DONE(cuMemCreate, &slot.handle, kBytes, &properties, 0ULL);
  DONE(cuMemMap, slot.at, kBytes, std::size_t{0}, slot.handle, 0ULL);
  DONE(cuMemSetAccess, slot.at, kBytes, &access, std::size_t{1});
  slot.kept = number % 2 != 0;
  slot.value = static_cast<int>(number % 250) + 1;
  if (!slot.kept) DONE(cuMemRelease, slot.handle);
  DONE(cuMemsetD8_v2, slot.at, static_cast<unsigned char>(slot.value), kBytes);
  DONE(cuCtxSynchronize);
}

void end(Slot& slot) {
  DONE(cuMemUnmap, slot.at, kBytes);
  if (slot.kept) DONE(cuMemRelease, slot.handle);
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
      DONE(cuMemGetAllocationPropertiesFromHandle, &properties, slot.handle);
      EXPECT(properties.location.id == device);
      break;
    case 1:
      DONE(cuMemRetainAllocationHandle, &again, reinterpret_cast<void*>(slot.at));
      EXPECT(!slot.kept || again == slot.handle);
      DONE(cuMemRelease, again);
      break;
    case 2:
      DONE(cuPointerGetAttribute, &ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, slot.at);
      EXPECT(ordinal == device);
      break;
    default:
      DONE(cuMemcpyDtoH_v2, seen.data(), slot.at + (number % 512) * 4096, seen.size());
      for (const unsigned char each : seen)
        if (each != slot.value) return expect(false, "a byte");
  }
}

void work(int id, CUcontext context) {
  const int device = id % 2;
  unsigned number = 4711U * static_cast<unsigned>(id + 1);
  DONE(cuCtxSetCurrent, context);
  std::vector<Slot> slots(kSlots);
  for (Slot& each : slots)
    DONE(cuMemAddressReserve, &each.at, kBytes, std::size_t{0}, CUdeviceptr{0}, 0ULL);
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
    DONE(cuMemAddressFree, each.at, kBytes);
  }
  --working;
}

}  // namespace

int main() {
  calls::library = dlopen("libcuda.so.1", RTLD_NOW);
  DONE(cuInit, 0U);
  std::vector<CUcontext> contexts(2);
  for (int i = 0; i < 2; ++i)
    DONE(cuDevicePrimaryCtxRetain, &contexts[static_cast<std::size_t>(i)], i);
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
