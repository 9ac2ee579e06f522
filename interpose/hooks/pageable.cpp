// SPDX-License-Identifier: MIT
#include "interpose/hooks/host_ranges.hpp"

#include <atomic>
#include <bit>
#include <cerrno>

#include <sys/mman.h>
#include <unistd.h>

namespace custash::pageable {
namespace {

enum class Answer : signed char { Unknown, No, Yes };

// Order: none. Each thread would get the same answer.
constinit std::atomic<Answer> known{Answer::Unknown};

Answer ask(const Driver& driver) {
  int count = 0;
  if (driver.device_get_count(&count) != CUDA_SUCCESS) return Answer::No;
  for (int device = 0; device < count; ++device) {
    int reached = 0;
    if (driver.device_get_attribute(
            &reached,
            CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES,
            device) == CUDA_SUCCESS &&
        reached != 0)
      return Answer::Yes;
  }
  return Answer::No;
}

// The system maps from the top of the addresses down, and loads programs in the upper half. The
// heap of a program that is loaded at a fixed address is low.
bool may_be_mapped(Address word) {
  const Address half = std::bit_ceil(reinterpret_cast<Address>(&word)) / 2;
  if (word - half < half) return true;
  const auto heap_end = reinterpret_cast<Address>(sbrk(0));
  return heap_end < half && word < heap_end && word >= 64_KiB;
}

}  // namespace

bool is_reached(const Driver& driver) noexcept {
  Answer answer = known.load(std::memory_order_relaxed);
  if (answer == Answer::Unknown) {
    answer = ask(driver);
    known.store(answer, std::memory_order_relaxed);
  }
  return answer == Answer::Yes;
}

bool is_mapped(Address word) noexcept {
  if (!may_be_mapped(word)) return false;
  const int before = errno;
  unsigned char resident = 0;
  const auto page = static_cast<Address>(sysconf(_SC_PAGESIZE));
  const bool mapped =
      mincore(reinterpret_cast<void*>(word & ~(page - 1)), page, &resident) == 0 ||
      errno != ENOMEM;
  errno = before;
  return mapped;
}

}  // namespace custash::pageable
