// SPDX-License-Identifier: MIT
#include "allocator/base/last_error.hpp"

#include <algorithm>
#include <cstddef>

namespace custash {
namespace {

constexpr std::size_t kRoom = 1024;
thread_local constinit char text[kRoom] = "";

}  // namespace

void set_last_error(std::string_view message) noexcept {
  const std::size_t size = std::min(message.size(), kRoom - 1);
  std::copy_n(message.begin(), size, text);
  text[size] = '\0';
}

const char* last_error() noexcept {
  return text;
}

}  // namespace custash
