// SPDX-License-Identifier: MIT
// The reason why the calling thread's last allocation was refused, as a sentence. One buffer
// per thread, without a destructor.
#pragma once

#include <string_view>

namespace custash {

void set_last_error(std::string_view message) noexcept;  // truncated if too long

// Empty until an allocation is refused; valid until the thread's next refusal.
const char* last_error() noexcept;

}  // namespace custash
