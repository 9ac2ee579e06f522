// SPDX-License-Identifier: MIT
// The check of all invariants: for tests and custash-replay. The libraries do not contain it.
#include "allocator/registry.hpp"

namespace custash {

bool Allocator::validate() {
  bool valid = true;
  for (ContextCache* cache : state_->all())
    valid &= cache->report().validate();
  return valid;
}

}  // namespace custash
