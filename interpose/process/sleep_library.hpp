// SPDX-License-Identifier: MIT
// SleepLibrary: what libcustash-check.so does for libcustash.so once memory is to sleep or to
// be trimmed deeply. State: the library in use.
#pragma once

#include "allocator/sleep/deep_trim.hpp"
#include "allocator/sleep/sleep.hpp"

#include <atomic>
#include <string>
#include <string_view>

namespace custash {

namespace service {

struct Answer;

}  // namespace service

struct SleepLibrary {
  // The sources it was built from: they must be libcustash.so's, as both share C++ types.
  const char* build;
  void (*out_of_memory)();  // core_table.hpp
  // Before the others; any number of times.
  void (*begin)(Allocator& core);
  SleepAnswer (*sleep)(Allocator& core, const SleepRequest& request);
  DeepTrimAnswer (*deep_trim)(Allocator& core, const SleepRequest& request);
  // The verbs of these names, and the look at whether the process idles.
  void (*answer_sleep)(Allocator& core, std::string_view arguments, service::Answer* answer);
  void (*answer_deep_trim)(Allocator& core,
                           std::string_view arguments,
                           service::Answer* answer);
  void (*tick)(Allocator& core);
};

// Null: it was not needed yet. Order: released once it is open and has begun.
inline constinit std::atomic<const SleepLibrary*> sleep_library_in_use{nullptr};

inline const SleepLibrary* sleep_library() noexcept {
  return sleep_library_in_use.load(std::memory_order_acquire);
}

// Opens it where it is not open; null: why.
const SleepLibrary* open_sleep_library(Allocator& core, std::string* why);

}  // namespace custash
