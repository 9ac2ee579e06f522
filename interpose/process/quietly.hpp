// SPDX-License-Identifier: MIT
// For changes that a program must not notice to have failed. Pure.
#pragma once

namespace custash {

// If the host has no memory for a change, it is not made.
template <typename Change>
void quietly(Change change) noexcept {
  try {
    change();
  } catch (...) {
  }
}

}  // namespace custash
