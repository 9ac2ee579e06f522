// SPDX-License-Identifier: MIT
#include "interpose/process/checkers.hpp"

#include "interpose/real/real_driver.hpp"

#include <cstdint>
#include <cstdlib>

#include <link.h>

namespace custash::checkers {
namespace {

constinit const char* found = nullptr;

int look_at(dl_phdr_info* info, std::size_t, void*) {
  const std::string_view name = info->dlpi_name == nullptr ? "" : info->dlpi_name;
  return name.find(kCollector) == std::string_view::npos ? 0 : 1;
}

}  // namespace

void read_environment() noexcept {
  found = told_by_environment(secure_getenv);
}

const char* sanitizer() noexcept {
  if (found != nullptr) return found;
  return dl_iterate_phdr(look_at, nullptr) != 0 ? kCollector.data() : nullptr;
}

const char* debugger() noexcept {
  for (const char* const name : {"cudbgDebuggerInitialized", "cudbgIpcFlag"}) {
    const auto* const flag = static_cast<const std::uint32_t*>(real::symbol(name));
    if (flag != nullptr && *flag != 0) return name;
  }
  return nullptr;
}

}  // namespace custash::checkers
