// SPDX-License-Identifier: MIT
// Proved: tests/models/ends.pml.
#include "allocator/order/context_users.hpp"

namespace custash {

void ContextUsers::close() {
  closed_.fetch_add(1);
  if (!holds(Rule::a_context_ends_after_its_users)) return;
  for (std::uint32_t inside = users_.load(); inside != 0; inside = users_.load())
    users_.wait(inside);
}

void ContextUsers::leave() {
  CUSTASH_ASSERT(users_.load() != 0);
  if (users_.fetch_sub(1) == 1 && closed_.load() != 0) users_.notify_all();
}

}  // namespace custash
