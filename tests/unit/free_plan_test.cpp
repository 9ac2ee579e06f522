// SPDX-License-Identifier: MIT
// A free looks its address up before it takes the lock. What it found may be stale by then.
#include "tests/catch.hpp"
#include "tests/unit/checks_bed.hpp"

using namespace custash;

TEST_CASE("a stale answer of the page map frees no other block", "[free_plan]") {
  CacheBed bed;
  const auto free = [&](const PageOwner& owner, Address address) {
    return bed.cache.free_slow(owner, address, nullptr, nullptr);
  };
  const Address first = bed.allocate(4_MiB);
  const Address second = bed.allocate(4_MiB);
  REQUIRE(second == first + 4_MiB);
  const PageOwner stale = bed.pages->find(second);
  REQUIRE(free(bed.pages->find(first), first).ok());
  REQUIRE(free(stale, second).ok());
  // The two merge, and what described the second now describes a block before its address.
  REQUIRE(bed.allocate(2_MiB) == first);
  const Address other = bed.allocate(6_MiB);
  REQUIRE(other == first + 2_MiB);
  REQUIRE(bed.pages->find(other).block == stale.block);
  CHECK(free(stale, second).code() == CUDA_ERROR_INVALID_VALUE);
  CHECK(free(bed.pages->find(other), other).ok());
}
