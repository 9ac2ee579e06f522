// SPDX-License-Identifier: MIT
// The C API's limits, trimming and pinned memory, as a preloaded program finds it. Prints a
// line for each expectation that does not hold.
#include "interpose/api/custash.h"
#include "tests/conformance/driver/driver.hpp"

#include <cstdint>
#include <cstring>
#include <string>

namespace {

using namespace semantics;

int failures = 0;

#define EXPECT(condition)                     \
  do {                                        \
    if (!(condition)) {                       \
      std::printf("wrong: %s\n", #condition); \
      ++failures;                             \
    }                                         \
  } while (0)

#define API(name) of_custash<decltype(&name)>(#name)

constexpr std::size_t kMiB = std::size_t{1} << 20U;

void* allocate(std::size_t bytes, custash_status_t expected = CUSTASH_SUCCESS) {
  void* block = nullptr;
  EXPECT(API(custash_malloc_async)(&block, 0, bytes, nullptr) == expected);
  return block;
}

void release(void* block) {
  EXPECT(API(custash_free)(block) == CUSTASH_SUCCESS);
}

std::size_t total() {
  std::size_t free_bytes = 0, all = 0;
  EXPECT(call("cuMemGetInfo_v2", &free_bytes, &all) == CUDA_SUCCESS && free_bytes <= all);
  return all;
}

std::size_t free_bytes() {
  std::size_t free = 0, all = 0;
  EXPECT(call("cuMemGetInfo_v2", &free, &all) == CUDA_SUCCESS);
  return free;
}

// What is said to be free under a limit can be had, and no more.
void free_under_limit() {
  EXPECT(API(custash_empty_cache)() == CUSTASH_SUCCESS);  // plain segments cannot be joined
  EXPECT(API(custash_set_memory_limit)(0, 64 * kMiB) == CUSTASH_SUCCESS);
  const std::size_t before = free_bytes();
  EXPECT(before > 32 * kMiB && before <= 64 * kMiB);
  void* part = allocate(20 * kMiB);
  EXPECT(free_bytes() == before - 20 * kMiB);
  allocate(free_bytes() + 2 * kMiB, CUSTASH_ERROR_OUT_OF_MEMORY);
  void* rest = allocate(free_bytes());
  EXPECT(free_bytes() == 0);
  release(part);
  EXPECT(free_bytes() == 20 * kMiB);
  release(rest);
  EXPECT(free_bytes() == before);
  EXPECT(API(custash_set_memory_limit)(0, SIZE_MAX) == CUSTASH_SUCCESS);
}

void limits() {
  const std::size_t whole = total();
  EXPECT(std::strlen(API(custash_last_error_message)()) == 0);
  EXPECT(API(custash_set_memory_limit)(0, 64 * kMiB) == CUSTASH_SUCCESS);
  EXPECT(total() == 64 * kMiB);
  EXPECT(allocate(65 * kMiB, CUSTASH_ERROR_OUT_OF_MEMORY) == nullptr);
  EXPECT(std::strlen(API(custash_last_error_message)()) > 0);
  release(allocate(32 * kMiB));
  EXPECT(API(custash_set_memory_fraction)(0, 0.5) == CUSTASH_SUCCESS && total() == whole / 2);
  EXPECT(API(custash_set_memory_fraction)(0, 1.5) == CUSTASH_ERROR_INVALID_VALUE);
  EXPECT(API(custash_set_memory_fraction)(0, -1) == CUSTASH_ERROR_INVALID_VALUE);
  EXPECT(API(custash_set_memory_limit)(99, kMiB) == CUSTASH_ERROR_INVALID_VALUE);
  EXPECT(API(custash_set_memory_limit)(0, SIZE_MAX) == CUSTASH_SUCCESS && total() == whole);
}

void trimming() {
  void* block = allocate(64 * kMiB);
  release(block);
  const std::size_t before = reserved();
  EXPECT(before >= 64 * kMiB);
  EXPECT(API(custash_trim)(0, 32 * kMiB) == CUSTASH_SUCCESS);
  EXPECT(reserved() <= before - 32 * kMiB);
  EXPECT(API(custash_trim)(99, kMiB) == CUSTASH_ERROR_INVALID_VALUE);

  EXPECT(API(custash_empty_cache)() == CUSTASH_SUCCESS && reserved() == 0);
  CUstream stream = nullptr;
  EXPECT(call("cuStreamCreate", &stream, 1U) == CUDA_SUCCESS);
  EXPECT(API(custash_malloc_async)(&block, 0, 64 * kMiB, stream) == CUSTASH_SUCCESS);
  EXPECT(API(custash_free_async)(block, stream) == CUSTASH_SUCCESS && reserved() >= 64 * kMiB);
  EXPECT(call("cuStreamSynchronize", stream) == CUDA_SUCCESS);
  EXPECT(API(custash_trim_stream)(stream) == CUSTASH_SUCCESS && reserved() == 0);

  release(allocate(64 * kMiB));
  EXPECT(API(custash_trim_idle)(0) == CUSTASH_SUCCESS && reserved() >= 64 * kMiB);
  EXPECT(API(custash_trim_idle)(0) == CUSTASH_SUCCESS && reserved() == 0);
  EXPECT(API(custash_trim_idle)(99) == CUSTASH_ERROR_INVALID_VALUE);
}

int calls = 0;

// Frees the block that `data` names, once.
int give_up(int device, std::size_t bytes, void* data) {
  ++calls;
  auto** const kept = static_cast<void**>(data);
  EXPECT(device == 0 && bytes == 40 * kMiB);
  if (*kept == nullptr) return 0;
  release(*kept);
  *kept = nullptr;
  return 1;
}

void callbacks() {
  EXPECT(API(custash_add_oom_callback)(nullptr, nullptr) == CUSTASH_ERROR_INVALID_VALUE);
  EXPECT(API(custash_remove_oom_callback)(give_up, nullptr) == CUSTASH_ERROR_INVALID_VALUE);
  EXPECT(API(custash_set_memory_limit)(0, 64 * kMiB) == CUSTASH_SUCCESS);
  void* kept = allocate(40 * kMiB);
  EXPECT(API(custash_add_oom_callback)(give_up, static_cast<void*>(&kept)) == CUSTASH_SUCCESS);
  void* const block = allocate(40 * kMiB);
  EXPECT(block != nullptr && kept == nullptr && calls == 1);
  allocate(40 * kMiB, CUSTASH_ERROR_OUT_OF_MEMORY);
  EXPECT(calls == 2);
  EXPECT(API(custash_remove_oom_callback)(give_up, static_cast<void*>(&kept)) ==
         CUSTASH_SUCCESS);
  allocate(40 * kMiB, CUSTASH_ERROR_OUT_OF_MEMORY);
  EXPECT(calls == 2);
  release(block);
  EXPECT(API(custash_set_memory_limit)(0, SIZE_MAX) == CUSTASH_SUCCESS);
}

std::int64_t host_stat(const char* name) {
  custash_stat_t stats[100];
  std::size_t count = 100;
  EXPECT(API(custash_host_memory_stats)(stats, &count) == CUSTASH_SUCCESS);
  for (std::size_t i = 0; i < count; ++i)
    if (std::string(stats[i].name) == name) return stats[i].value;
  return -1;
}

void pinned() {
  void* buffer = nullptr;
  EXPECT(API(custash_host_malloc)(&buffer, 0, 0) == CUSTASH_SUCCESS && buffer == nullptr);
  EXPECT(API(custash_host_malloc)(&buffer, 4096, 8) == CUSTASH_ERROR_INVALID_VALUE);
  EXPECT(API(custash_host_malloc)(&buffer, 3 * kMiB, 0) == CUSTASH_SUCCESS &&
         buffer != nullptr);
  EXPECT(reinterpret_cast<std::uintptr_t>(buffer) % 4096 == 0);
  std::memset(buffer, 1, 3 * kMiB);
  CUstream stream = nullptr;
  EXPECT(call("cuStreamCreate", &stream, 1U) == CUDA_SUCCESS);
  EXPECT(API(custash_host_record_stream)(buffer, stream) == CUSTASH_SUCCESS);
  EXPECT(API(custash_host_record_stream)(&stream, stream) == CUSTASH_ERROR_INVALID_VALUE);
  EXPECT(API(custash_host_free)(static_cast<char*>(buffer) + 1) == CUSTASH_ERROR_INVALID_VALUE);
  EXPECT(API(custash_host_free)(&stream) == CUSTASH_ERROR_NOT_OURS);
  EXPECT(API(custash_host_free)(buffer) == CUSTASH_SUCCESS);
  EXPECT(API(custash_host_free)(buffer) == CUSTASH_ERROR_INVALID_VALUE);
  EXPECT(API(custash_host_free)(nullptr) == CUSTASH_SUCCESS);
  EXPECT(host_stat("allocated_bytes.current") == 0 || host_stat("active_bytes.current") == 0);
  EXPECT(host_stat("allocated_bytes.peak") >= static_cast<std::int64_t>(3 * kMiB));
  EXPECT(API(custash_host_empty_cache)() == CUSTASH_SUCCESS);
  EXPECT(API(custash_host_reset_peak_memory_stats)() == CUSTASH_SUCCESS);
  EXPECT(host_stat("allocated_bytes.peak") == host_stat("allocated_bytes.current"));
  EXPECT(host_stat("allocated_bytes.current") == 0);
}

}  // namespace

int main() {
  CUcontext context = nullptr;
  EXPECT(call("cuInit", 0U) == CUDA_SUCCESS);
  EXPECT(call("cuDevicePrimaryCtxRetain", &context, CUdevice{0}) == CUDA_SUCCESS);
  EXPECT(call("cuCtxSetCurrent", context) == CUDA_SUCCESS);
  limits();
  free_under_limit();
  trimming();
  callbacks();
  pinned();
  if (failures == 0) std::printf("all right\n");
  return failures != 0;
}
