// SPDX-License-Identifier: MIT
// Opens libcustash-check.so and hands it the table of functions that it calls here. With
// custash linked in, the reports and sleep are linked in, too.
#include "interpose/build_id.hpp"
#include "interpose/check/core_table.hpp"
#include "interpose/real/dlsym.hpp"

#include <string_view>

namespace custash {
namespace {

// Order: written before the library has the table's functions to call.
constinit std::atomic<void (*)()> library_out_of_memory{nullptr};

#define FUNCTION(id, result, name, params, how, args)                       \
  .id = [] params -> result {                                               \
    return contained(library_out_of_memory.load(std::memory_order_relaxed), \
                     [&]() -> result { return name args; });                \
  },
// The caller holds what the method asks for.
#define METHOD(id, result, Class, name, params, how, args)                                  \
  .id = [] CORE_WITH_SELF(Class, IN_PARENTHESES params)                                     \
            CUSTASH_TSA(no_thread_safety_analysis) -> result {                              \
    return contained(                                                                       \
        library_out_of_memory.load(std::memory_order_relaxed),                              \
        [&]() CUSTASH_TSA(no_thread_safety_analysis) -> result { return self.name args; }); \
  },
constexpr CoreTable kTable{
    .out_of_memory = throw_bad_alloc,
#include "interpose/check/core_table.def"
};

// The library's table by what it exports, or null: why.
template <typename Library>
const Library* open(const char* function, std::string* why) {
  std::string reason;
  auto* const found = reinterpret_cast<const Library* (*)(const CoreTable*)>(
      find_check_library(function, &reason));
  prepare_unwinder();
  const Library* const library = found == nullptr ? nullptr : found(&kTable);
  if (library != nullptr && std::string_view(library->build) == kBuild) {
    library_out_of_memory.store(library->out_of_memory, std::memory_order_relaxed);
    return library;
  }
  *why = library == nullptr ? reason : "libcustash-check is of another build of custash";
  return nullptr;
}

}  // namespace

// Order: a library in use is released after it has the table.
std::string open_check_library() {
  std::string why;
  check_library_in_use.store(open<CheckLibrary>(kOpenChecks, &why), std::memory_order_release);
  return why;
}

const ReportLibrary* open_report_library(std::string* why) {
  if (report_library() == nullptr)
    if (const auto* const library = open<ReportLibrary>(kOpenReports, why))
      report_library_in_use.store(library, std::memory_order_release);
  return report_library();
}

const SleepLibrary* open_sleep_library(Allocator& core, std::string* why) {
  if (sleep_library() == nullptr) {
    if (const auto* const library = open<SleepLibrary>(kOpenSleep, why)) {
      library->begin(core);
      sleep_library_in_use.store(library, std::memory_order_release);
    }
  }
  return sleep_library();
}

}  // namespace custash
