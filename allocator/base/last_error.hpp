// SPDX-License-Identifier: MIT
// Why the calling thread's last allocation was refused, in a sentence. One buffer a thread,
// without a destructor.
#pragma once

#include <string_view>

namespace custash {

void set_last_error(std::string_view message) noexcept;  // cut where it is too long

// Empty when nothing was refused yet; valid until the thread's next refusal.
const char* last_error() noexcept;

}  // namespace custash
