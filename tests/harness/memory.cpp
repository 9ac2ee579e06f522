// SPDX-License-Identifier: MIT
// The two ways to memory. Bare, the numbers are those of the driver's default pool.
#include "tests/harness/memory.hpp"

#include "interpose/api/custash.h"
#include "tests/harness/history.hpp"

#include <dlfcn.h>

namespace custash::harness {
namespace {

template <typename Function>
Function* find(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

#define FIND(name) decltype(&::name) name = find<decltype(::name)>(#name)

struct Custash {
  FIND(custash_malloc_async);
  FIND(custash_free_async);
  FIND(custash_record_stream);
  FIND(custash_host_free);
  FIND(custash_host_record_stream);
  FIND(custash_empty_cache);
  FIND(custash_allocated_bytes);
  FIND(custash_reserved_bytes);
  FIND(custash_reset_peak_memory_stats);
  FIND(custash_memory_stats);
  FIND(custash_error_string);
};

#undef FIND

// Null without custash, and where it is switched off.
const Custash* custash() {
  static const Custash* const served = [] {
    auto* const made = new Custash;
    custash_counter_t bytes{};
    const bool here = made->custash_malloc_async != nullptr && device_count() > 0 &&
                      made->custash_reserved_bytes(0, &bytes) == CUSTASH_SUCCESS;
    return here ? made : nullptr;
  }();
  return served;
}

void check_status(custash_status_t status, const char* what) {
  if (status != CUSTASH_SUCCESS)
    throw CudaError(cudaErrorUnknown,
                    std::string(what) + ": " + custash()->custash_error_string(status));
}

cudaMemPool_t pool_of(int device) {
  use_device(device);
  cudaMemPool_t pool = nullptr;
  check(cudaDeviceGetDefaultMemPool(&pool, device), "cudaDeviceGetDefaultMemPool");
  return pool;
}

Bytes pool_number(int device, cudaMemPoolAttr attribute) {
  std::uint64_t value = 0;
  check(cudaMemPoolGetAttribute(pool_of(device), attribute, &value), "cudaMemPoolGetAttribute");
  return value;
}

using Read = custash_status_t (*)(int, custash_counter_t*);

Bytes number(int device,
             Read Custash::*read,
             std::int64_t custash_counter_t::*which,
             cudaMemPoolAttr bare) {
  if (custash() == nullptr) return pool_number(device, bare);
  custash_counter_t bytes{};
  check_status((custash()->*read)(device, &bytes), "a number of custash's");
  return static_cast<Bytes>(bytes.*which);
}

std::string mebibytes(Bytes bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f MiB", static_cast<double>(bytes) / (1 << 20));
  return text;
}

std::string out_of_memory(int device, Bytes bytes) {
  const DriverMemory driver = memory_info(device);
  return "CUDA out of memory: tried to allocate " + mebibytes(bytes) + " on " +
         Device::cuda(device).str() + ", which has " + mebibytes(driver.total) + ", " +
         mebibytes(driver.free) + " of it free; tensors occupy " +
         mebibytes(memory_allocated(device)) + ", the allocator holds " +
         mebibytes(memory_reserved(device));
}

// What release() may not throw out of a destructor.
bool succeeded(cudaError_t code) {
  if (code != cudaSuccess) (void)cudaGetLastError();
  return code == cudaSuccess;
}

}  // namespace

bool custash_loaded() {
  return custash() != nullptr;
}

void* allocate(Bytes bytes, const Stream& stream) {
  use_device(stream.device());
  void* memory = nullptr;
  if (custash() != nullptr) {
    const auto status =
        custash()->custash_malloc_async(&memory, stream.device(), bytes, stream.get());
    if (status == CUSTASH_ERROR_OUT_OF_MEMORY)
      throw OutOfMemory(out_of_memory(stream.device(), bytes));
    check_status(status, "custash_malloc_async");
  } else {
    const cudaError_t code = cudaMallocAsync(&memory, bytes, stream.get());
    if (code == cudaErrorMemoryAllocation) {
      (void)cudaGetLastError();
      throw OutOfMemory(out_of_memory(stream.device(), bytes));
    }
    check(code, "cudaMallocAsync");
  }
  history::note(history::Action::Allocate, memory, bytes, stream);
  return memory;
}

void release(void* memory, const Stream& stream, const std::vector<Stream>& recorded) noexcept {
  try {
    history::note(history::Action::Free, memory, 0, stream);
    if (custash() != nullptr) {
      (void)custash()->custash_free_async(memory, stream.get());
      return;
    }
    for (const Stream& other : recorded)
      stream.wait_stream(other);
    use_device(stream.device());
    (void)succeeded(cudaFreeAsync(memory, stream.get()));
  } catch (const CudaError&) {
    // The device is gone, by a fault or at exit; so is the memory.
  }
}

void note_use(void* memory, const Stream& stream) {
  history::note(history::Action::UseOnStream, memory, 0, stream);
  if (custash() == nullptr) return;
  use_device(stream.device());
  check_status(custash()->custash_record_stream(memory, stream.get()), "custash_record_stream");
}

void* allocate_pinned(Bytes bytes) {
  use_device(current_device());
  void* memory = nullptr;
  const cudaError_t code = cudaMallocHost(&memory, bytes);
  if (code == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    throw OutOfMemory("out of pinned memory: tried to allocate " + mebibytes(bytes));
  }
  check(code, "cudaMallocHost");
  return memory;
}

void release_pinned(void* memory, const std::vector<Stream>& users) noexcept {
  if (custash() == nullptr || custash()->custash_host_free == nullptr || users.empty()) {
    (void)succeeded(cudaFreeHost(memory));
    return;
  }
  try {
    for (const Stream& user : users) {
      use_device(user.device());
      check_status(custash()->custash_host_record_stream(memory, user.get()),
                   "custash_host_record_stream");
    }
    check_status(custash()->custash_host_free(memory), "custash_host_free");
  } catch (const CudaError&) {
    // As in release().
  }
}

// ---- numbers

Bytes memory_allocated(int device) {
  return number(device,
                &Custash::custash_allocated_bytes,
                &custash_counter_t::current,
                cudaMemPoolAttrUsedMemCurrent);
}

Bytes memory_reserved(int device) {
  return number(device,
                &Custash::custash_reserved_bytes,
                &custash_counter_t::current,
                cudaMemPoolAttrReservedMemCurrent);
}

Bytes max_memory_allocated(int device) {
  return number(device,
                &Custash::custash_allocated_bytes,
                &custash_counter_t::peak,
                cudaMemPoolAttrUsedMemHigh);
}

Bytes max_memory_reserved(int device) {
  return number(device,
                &Custash::custash_reserved_bytes,
                &custash_counter_t::peak,
                cudaMemPoolAttrReservedMemHigh);
}

void reset_peak_memory_stats(int device) {
  if (custash() != nullptr)
    return check_status(custash()->custash_reset_peak_memory_stats(device), "reset of peaks");
  std::uint64_t zero = 0;
  for (const auto attribute : {cudaMemPoolAttrUsedMemHigh, cudaMemPoolAttrReservedMemHigh})
    check(cudaMemPoolSetAttribute(pool_of(device), attribute, &zero), "reset of peaks");
}

void empty_cache() {
  if (custash() != nullptr)
    return check_status(custash()->custash_empty_cache(), "custash_empty_cache");
  if (!is_initialized()) return;
  check(cudaMemPoolTrimTo(pool_of(current_device()), 0), "cudaMemPoolTrimTo");
}

std::map<std::string, std::int64_t> memory_stats(int device) {
  if (custash() == nullptr) {
    const auto signed_number = [&](cudaMemPoolAttr attribute) {
      return static_cast<std::int64_t>(pool_number(device, attribute));
    };
    return {{"allocated_bytes.all.current", signed_number(cudaMemPoolAttrUsedMemCurrent)},
            {"allocated_bytes.all.peak", signed_number(cudaMemPoolAttrUsedMemHigh)},
            {"reserved_bytes.all.current", signed_number(cudaMemPoolAttrReservedMemCurrent)},
            {"reserved_bytes.all.peak", signed_number(cudaMemPoolAttrReservedMemHigh)}};
  }
  std::size_t count = 0;
  check_status(custash()->custash_memory_stats(device, nullptr, &count), "memory_stats");
  std::vector<custash_stat_t> stats(count);
  check_status(custash()->custash_memory_stats(device, stats.data(), &count), "memory_stats");
  std::map<std::string, std::int64_t> out;
  for (const custash_stat_t& stat : stats)
    out[stat.name] = stat.value;
  return out;
}

DriverMemory memory_info(int device) {
  use_device(device);
  DriverMemory memory;
  std::size_t free = 0;
  std::size_t total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return {free, total};
}

std::string memory_summary(int device) {
  const DriverMemory driver = memory_info(device);
  std::string out = "memory of " + Device::cuda(device).str() +
                    (custash() != nullptr ? ", through custash\n" : ", bare\n");
  const auto row = [&](const char* name, Bytes now, Bytes peak) {
    char line[96];
    std::snprintf(line,
                  sizeof line,
                  "| %-12s | %14s | %14s |\n",
                  name,
                  mebibytes(now).c_str(),
                  mebibytes(peak).c_str());
    out += line;
  };
  out += "|              |            now |           peak |\n";
  row("allocated", memory_allocated(device), max_memory_allocated(device));
  row("reserved", memory_reserved(device), max_memory_reserved(device));
  const auto stats = memory_stats(device);
  for (const char* name : {"num_alloc_retries", "num_ooms"})
    if (stats.count(name) != 0)
      out += std::string("| ") + name + ": " + std::to_string(stats.at(name)) + "\n";
  return out + "| the driver has " + mebibytes(driver.free) + " free of " +
         mebibytes(driver.total) + "\n";
}

LeakCheck::LeakCheck(int device) : device_(device) {
  reset_peak_memory_stats(device);
  baseline_ = memory_allocated(device);
}

bool LeakCheck::leaks() const {
  return memory_allocated(device_) * 2 > baseline_ * 3;
}

}  // namespace custash::harness
