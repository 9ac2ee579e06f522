// SPDX-License-Identifier: MIT
// CheckLibrary: what libcustash-check.so does for libcustash.so once an option asks for checks
// (guard:, check_streams:). State: the library in use.
#pragma once

#include "allocator/base/config.hpp"
#include "allocator/base/driver.hpp"

#include <atomic>
#include <string>

namespace custash {

class Allocator;

struct CheckLibrary {
  // The sources it was built from: they must be libcustash.so's, as both share C++ types.
  const char* build;
  void (*out_of_memory)();  // core_table.hpp
  // Before the core is made: guards serve the allocations that the choice names.
  void (*serve)(GuardChoice* choice);
  // Once the core runs. Complaints and findings go to `say`.
  void (*begin)(const Config& config, void (*say)(const std::string& line));
  // At exit: looks around all blocks, then prints what no launcher prints.
  void (*finish)(Allocator& core) noexcept;
  void (*print)() noexcept;
  void (*reset_locks_after_fork)() noexcept;

  void (*context_ended)(CUcontext context) noexcept;
  // A call has returned an error of the device.
  void (*fault)(CUresult code) noexcept;
  // The free of this address will wait for the stream, too.
  void (*named)(Address address, CUstream stream) noexcept;
  // How long check_streams has kept the program's calls, estimated from those sampled.
  std::uint64_t (*nanoseconds)();
  std::uint64_t (*sampled_calls)();
};

// Null: nothing is checked. Order: released once it is open.
inline constinit std::atomic<const CheckLibrary*> check_library_in_use{nullptr};

inline const CheckLibrary* check_library() noexcept {
  return check_library_in_use.load(std::memory_order_acquire);
}

// Opens it; an empty answer, or why it is not available.
std::string open_check_library();

}  // namespace custash
