// SPDX-License-Identifier: MIT
// Opens libcustash-check.so and hands it the table of functions that it calls here.
#include "interpose/build_id.hpp"
#include "interpose/check/core_table.hpp"
#include "interpose/real/dlsym.hpp"

#include <string_view>

namespace custash {
namespace {

#define FUNCTION(id, result, name, params, how, args) \
  .id = [] params -> result { return name args; },
// The caller holds what the method asks for.
#define METHOD(id, result, Class, name, params, how, args) \
  .id = [] CORE_WITH_SELF(Class, IN_PARENTHESES params)    \
            CUSTASH_TSA(no_thread_safety_analysis) -> result { return self.name args; },
constexpr CoreTable kTable{
#include "interpose/check/core_table.def"
};

}  // namespace

std::string open_check_library() {
  std::string why;
  auto* const open = reinterpret_cast<OpenChecks*>(find_check_library(kOpenChecks, &why));
  if (open == nullptr) return why;
  prepare_unwinder();
  const CheckLibrary* const library = open(&kTable);
  if (std::string_view(library->build) != kBuild)
    return "libcustash-check is of another build of custash";
  // Order: released after the library has the table.
  check_library_in_use.store(library, std::memory_order_release);
  return "";
}

}  // namespace custash
