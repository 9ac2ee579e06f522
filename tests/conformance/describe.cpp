// SPDX-License-Identifier: MIT
// What an address is said to be, and how much memory there is.
#include "tests/conformance/cases.hpp"

#include <set>

namespace conformance {
namespace {

const auto attribute = [](void* out, int which, CUdeviceptr where) {
  return call("cuPointerGetAttribute", out, which, where);
};
const auto range = CU(cuMemGetAddressRange_v2, cuMemGetAddressRange);

void say_range(const char* what, CUdeviceptr base, CUdeviceptr where) {
  CUdeviceptr start = 0;
  std::size_t size = 0;
  const CUresult code = range(&start, &size, where);
  std::printf("%s: %d", what, code);
  if (code == CUDA_SUCCESS) std::printf(" base %d size %zu", start == base, size);
  std::printf(
      "; only base %d, only size %d, neither %d\n",
      range(&start, static_cast<std::size_t*>(nullptr), where),
      range(static_cast<CUdeviceptr*>(nullptr), &size, where),
      range(static_cast<CUdeviceptr*>(nullptr), static_cast<std::size_t*>(nullptr), where));
}

// Addresses are told from `base`; what is none is told as it is. Whether memory can go by the
// old IPC calls, tests/process/ipc.py asks; what it is mapped in (18 to 20) is the segment's,
// and may differ.
void say_attributes(const char* what, CUdeviceptr base, CUdeviceptr where) {
  CUcontext current = nullptr;
  CU(cuCtxGetCurrent, cuCtxGetCurrent)(&current);
  std::printf("%s:", what);
  for (int which = 1; which <= 20; ++which) {
    constexpr int kLegacyIpc = 10;
    if (which == CU_POINTER_ATTRIBUTE_P2P_TOKENS || which == CU_POINTER_ATTRIBUTE_BUFFER_ID ||
        which == kLegacyIpc)
      continue;
    if (which == 18) std::printf("\n#");
    unsigned long long value = 0;
    const CUresult code = attribute(&value, which, where);
    std::printf(" %d=%d", which, code);
    if (code != CUDA_SUCCESS) continue;
    if (which == CU_POINTER_ATTRIBUTE_CONTEXT) {
      std::printf("/%s", value == address(current) ? "current" : value == 0 ? "none" : "other");
    } else if (value >= base && value - base < (1ULL << 40U) && base != 0) {
      std::printf("/+%llu", value - base);
    } else {
      std::printf("/%llu", value);
    }
  }
  std::printf("\n");
}

void say_runtime(const char* what, const void* p) {
  cudaPointerAttributes told{};
  const cudaError_t code = cudaPointerGetAttributes(&told, p);
  std::printf("%s: runtime %d type %d device %d, at device %d at host %d\n",
              what,
              code,
              told.type,
              told.device,
              told.devicePointer == p,
              told.hostPointer == p);
}

constexpr std::size_t kSizes[] = {1, 5000, kMiB, 3 * kMiB + 17, 40 * kMiB};

}  // namespace

CASE(describe_address_range) {
  for (const std::size_t bytes : kSizes) {
    void* p = nullptr;
    SAY(cudaMalloc(&p, bytes));
    const CUdeviceptr base = address(p);
    say_range("begin", base, base);
    say_range("inside", base, base + bytes / 2);
    say_range("last", base, base + bytes - 1);
    SAY(cudaFree(p));
    say_range("freed", base, base);
  }
  say_range("null", 0, 0);
  int own = 0;
  say_range("host", 0, address(&own));
}

CASE(describe_attributes) {
  for (const std::size_t bytes : kSizes) {
    void* p = nullptr;
    SAY(cudaMalloc(&p, bytes));
    const CUdeviceptr base = address(p);
    say_attributes("begin", base, base);
    say_attributes("inside", base, base + bytes / 2);
    say_attributes("last", base, base + bytes - 1);
    say_runtime("inside", at(p, bytes / 2));
    SAY(cudaFree(p));
    say_attributes("freed", base, base);
    say_runtime("freed", p);
  }
  say_attributes("null", 0, 0);
  say_runtime("null", nullptr);
  int own = 0;
  say_attributes("pageable", address(&own), address(&own));
  say_runtime("pageable", &own);
  SAY_WITH_LAST(cudaPointerGetAttributes(nullptr, &own));
}

// The other entry, which answers each attribute that it cannot tell with a default.
CASE(describe_attributes_at_once) {
  CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                 CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                 CU_POINTER_ATTRIBUTE_RANGE_SIZE,
                                 CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
  for (const std::size_t bytes : kSizes) {
    void* p = nullptr;
    SAY(cudaMalloc(&p, bytes));
    for (const char* when : {"live", "freed"}) {
      unsigned type = 99;
      CUdeviceptr start = 99;
      std::size_t size = 99;
      int device = 99;
      void* out[] = {&type, &start, &size, &device};
      const CUresult code =
          call("cuPointerGetAttributes", 4U, &which[0], &out[0], address(p) + bytes / 2);
      std::printf("%s %d: type %u start %d size %zu device %d\n",
                  when,
                  code,
                  type,
                  start == address(p) ? 1
                  : start == 0        ? 0
                                      : -1,
                  size,
                  device);
      if (when[0] == 'l') SAY(cudaFree(p));
    }
  }
}

CASE(describe_buffer_ids) {
  std::set<unsigned long long> ids;
  std::size_t count = 0;
  const auto ask = [&](CUdeviceptr p) {
    unsigned long long id = 0;
    SAY(attribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, p));
    return id;
  };
  for (int round = 0; round < 3; ++round) {
    for (const std::size_t bytes : kSizes) {
      void* p = nullptr;
      SAY(cudaMalloc(&p, bytes));
      const unsigned long long id = ask(address(p));
      SAY(id == ask(address(p) + bytes - 1));
      ids.insert(id);
      ++count;
      SAY(cudaFree(p));
    }
  }
  SAY(ids.size() == count);
}

CASE(describe_handles) {
  void* p = nullptr;
  CUmemGenericAllocationHandle handle = 0;
  SAY(cudaMalloc(&p, 5000));
  SAY(CU(cuMemRetainAllocationHandle, cuMemRetainAllocationHandle)(&handle, p));  // it has none
  SAY(cudaFree(p));
}

CASE(describe_sync_memops) {
  for (const std::size_t bytes : kSizes) {
    void* p = nullptr;
    void* neighbour = nullptr;
    unsigned on = 1;
    const auto is_on = [](void* which) {
      unsigned value = 99;
      const CUresult code = attribute(&value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address(which));
      return code == CUDA_SUCCESS ? static_cast<int>(value != 0) : -code;
    };
    SAY(cudaMalloc(&p, bytes));
    SAY(cudaMalloc(&neighbour, bytes));
    SAY(is_on(p));
    SAY(call("cuPointerSetAttribute",
             static_cast<const void*>(&on),
             static_cast<int>(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS),
             address(p)));
    SAY(is_on(p));
    SAY(is_on(neighbour));
    SAY(cudaFree(p));
    SAY(cudaMalloc(&p, bytes));
    SAY(is_on(p));
    SAY(cudaFree(p));
    SAY(cudaFree(neighbour));
    SAY(call("cuPointerSetAttribute",
             static_cast<const void*>(&on),
             static_cast<int>(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS),
             address(p)));
  }
}

CASE(memory_info_codes) {
  std::size_t free = 0;
  std::size_t total = 0;
  std::size_t whole = 0;
  const auto info = CU(cuMemGetInfo_v2, cuMemGetInfo);
  SAY(info(&free, &total));
  SAY(cudaFree(nullptr));
  SAY(info(&free, &total));
  SAY(free > 0 && free <= total);
  SAY(CU(cuDeviceTotalMem_v2, cuDeviceTotalMem)(&whole, CUdevice{0}));
  SAY(whole == total);
  free = total = 0;
  SAY(info(static_cast<std::size_t*>(nullptr), &total));
  SAY(total == whole);
  SAY(info(&free, static_cast<std::size_t*>(nullptr)));
  SAY(free > 0);
  SAY(cudaMemGetInfo(nullptr, &total));
  SAY_WITH_LAST(cudaMemGetInfo(&free, nullptr));
}

// Every allocation is seen to take memory, every free to give it back: at once, without a word
// to us.
CASE(memory_info_follows) {
  SAY(cudaFree(nullptr));
  const std::size_t before = free_now();
  for (const std::size_t bytes : {2 * kMiB, 3 * kMiB, 21 * kMiB, 64 * kMiB, 300 * kMiB}) {
    void* p = nullptr;
    SAY(cudaMalloc(&p, bytes));
    SAY(before - free_now() >= bytes);
    SAY(cudaMemset(p, 1, bytes));
    SAY(cudaFree(p));
    SAY(before == free_now());
  }
  void* many[40] = {};
  int wrong = 0;
  for (void*& p : many)
    wrong += cudaMalloc(&p, 900 * kKiB) != cudaSuccess;
  SAY(before - free_now() >= 40 * 900 * kKiB);
  for (void* p : many)
    wrong += cudaMemset(p, 1, 900 * kKiB) != cudaSuccess || cudaFree(p) != cudaSuccess;
  SAY(wrong);
  SAY(before == free_now());
}

// Freed with work in flight on two streams.
CASE(memory_info_after_work) {
  SAY(cudaFree(nullptr));
  const Stream one;
  const Stream two;
  const std::size_t before = free_now();
  for (const std::size_t bytes : {500 * kKiB, kMiB, 30 * kMiB}) {
    void* p = nullptr;
    void* q = nullptr;
    SAY(cudaMalloc(&p, bytes));
    SAY(cudaMalloc(&q, bytes));
    SAY(cudaMemsetAsync(p, 1, bytes, one));
    SAY(cudaMemsetAsync(q, 2, bytes, two));
    SAY(cudaFree(p));
    SAY(cudaFree(q));
    SAY(cudaDeviceSynchronize());
    SAY(before == free_now());
  }
}

}  // namespace conformance
