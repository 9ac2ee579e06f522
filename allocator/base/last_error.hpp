// SPDX-License-Identifier: MIT
// The reason why the calling thread's last allocation was refused, as a sentence. One buffer
// per thread, without a destructor.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace custash {

inline constexpr std::size_t kLastErrorRoom = 1024;
inline thread_local constinit char last_error_text[kLastErrorRoom] = "";

// Truncated if too long.
inline void set_last_error(std::string_view message) noexcept {
  const std::size_t size = std::min(message.size(), kLastErrorRoom - 1);
  std::copy_n(message.begin(), size, last_error_text);
  last_error_text[size] = '\0';
}

// Empty until an allocation is refused; valid until the thread's next refusal.
inline const char* last_error() noexcept {
  return last_error_text;
}

}  // namespace custash
