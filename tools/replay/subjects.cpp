// SPDX-License-Identifier: MIT
#include "tools/replay/subjects.hpp"

#include <stdexcept>

namespace custash::replay {
namespace {

template <typename Function>
void find(Device& device, const char* symbol, Function* out) {
  *out = reinterpret_cast<Function>(device.find(symbol));
  if (*out == nullptr) throw std::runtime_error(std::string("the driver lacks ") + symbol);
}

// Time of `call` goes into the row.
template <typename Call>
bool timed(const Driver& driver, CallRow& row, Call call) {
  const Nanoseconds before = driver.now();
  const bool ok = call() == CUDA_SUCCESS;
  row.time += driver.now() - before;
  ++row.calls;
  return ok;
}

}  // namespace

ThroughPool::ThroughPool(Device& device) : device_(device) {
  CUresult (*get_default)(CUmemoryPool*, CUdevice) = nullptr;
  CUresult (*set)(CUmemoryPool, CUmemPool_attribute, void*) = nullptr;
  find(device, "cuDeviceGetDefaultMemPool", &get_default);
  find(device, "cuMemPoolSetAttribute", &set);
  find(device, "cuMemPoolGetAttribute", &get_);
  find(device, "cuMemAllocAsync", &alloc_);
  find(device, "cuMemFreeAsync", &free_);
  cuuint64_t threshold = ~cuuint64_t{0};
  if (get_default(&pool_, 0) != CUDA_SUCCESS ||
      set(pool_, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold) != CUDA_SUCCESS)
    throw std::runtime_error("the device has no memory pool");
}

bool ThroughPool::allocate(const Event& event, Address* out) {
  CUdeviceptr address = 0;
  const CUstream stream = device_.stream(event.stream);
  const bool ok =
      timed(device_.driver(), allocs_, [&] { return alloc_(&address, event.bytes, stream); });
  *out = address;
  return ok;
}

bool ThroughPool::free(const Event& event, Address address) {
  const CUstream stream = device_.stream(event.stream);
  return timed(device_.driver(), frees_, [&] { return free_(address, stream); });
}

bool ThroughPool::submit(const Event& event, Address address) {
  return device_.submit(device_.stream(event.stream), address, event.bytes) == CUDA_SUCCESS;
}

Bytes ThroughPool::attribute(CUmemPool_attribute which) const {
  cuuint64_t value = 0;
  return get_(pool_, which, &value) == CUDA_SUCCESS ? value : 0;
}

Bytes ThroughPool::held() const {
  return attribute(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
}

Bytes ThroughPool::peak() const {
  return attribute(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH);
}

}  // namespace custash::replay
