// SPDX-License-Identifier: MIT
#include "allocator/base/quota.hpp"

namespace custash {

std::atomic<std::uint64_t> Quota::calls{0};

void Quota::Call::begin() {
  if (!std::exchange(under_way_, true)) calls.fetch_add(kBegun);
}

void Quota::Call::end() {
  if (std::exchange(under_way_, false)) calls.fetch_sub(1);
}

}  // namespace custash
