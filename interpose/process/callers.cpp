// SPDX-License-Identifier: MIT
#include "interpose/process/callers.hpp"

#include <algorithm>
#include <iterator>
#include <string_view>

#include <dlfcn.h>

namespace custash::callers {
namespace {

constexpr std::string_view kLibraries[] = {
    "libcudnn", "libcublas", "libcufft", "libcusolver", "libcusparse", "libnccl"};

}  // namespace

bool is_library_of_nvidia(const void* address) noexcept {
  Dl_info info{};
  if (address == nullptr || dladdr(address, &info) == 0 || info.dli_fname == nullptr)
    return false;
  std::string_view name = info.dli_fname;
  name.remove_prefix(name.rfind('/') + 1);  // npos + 1 is 0
  return std::any_of(
      std::begin(kLibraries), std::end(kLibraries), [name](std::string_view library) {
        return name.substr(0, library.size()) == library;
      });
}

}  // namespace custash::callers
