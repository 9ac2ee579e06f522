// SPDX-License-Identifier: MIT
#include "allocator/heap/size_policy.hpp"

#include "tests/catch.hpp"

using namespace custash;

TEST_CASE("every small size fits its class and no smaller class", "[size_policy]") {
  for (Bytes bytes = 1; bytes <= kSmallLimit; bytes += 61) {
    const SizeClass c = size_class(bytes);
    REQUIRE(c < SizeClass::Large);
    REQUIRE(class_bytes(c) >= bytes);
    if (index(c) > 0) REQUIRE(class_bytes(SizeClass(index(c) - 1)) < bytes);
  }
  REQUIRE(size_class(kSmallLimit) == kEachClass.back());
  REQUIRE(class_bytes(kEachClass.back()) == kSmallLimit);
}

TEST_CASE("classes are exact at their own size and aligned", "[size_policy]") {
  for (const SizeClass c : kEachClass) {
    REQUIRE(size_class(class_bytes(c)) == c);
    REQUIRE(class_bytes(c) % kAlignment == 0);
  }
}

TEST_CASE("a class wastes at most a fifth above 2 KiB", "[size_policy]") {
  for (Bytes bytes = 2049; bytes <= kSmallLimit; bytes += 127) {
    REQUIRE(class_bytes(size_class(bytes)) * 4 <= bytes * 5 + 4);
  }
}

TEST_CASE("handles are whole pages, smaller as the device fills", "[size_policy]") {
  for (const Bytes growth : {2_MiB, 34_MiB, 400_MiB, 1_GiB, 100_GiB}) {
    Bytes last = kPageBytes;
    for (const Bytes left : {0_MiB, 1_GiB, 5_GiB, 70_GiB, 1000_GiB}) {
      const Bytes handle = handle_bytes(growth, left);
      REQUIRE(handle % kPageBytes == 0);
      REQUIRE(handle >= last);
      REQUIRE(handle <= 256_MiB);
      last = handle;
    }
    REQUIRE(last >= 32_MiB);
    REQUIRE(handle_bytes(growth, kNearlyFull - 1) == kPageBytes);
  }
}

TEST_CASE("handles are finer the more is lost", "[size_policy]") {
  for (const Bytes most : {0_MiB, 100_MiB, 8_GiB, 100_GiB}) {
    REQUIRE(finer_handle_bytes(most + most / kShareLost, most) == ~0ULL);
    Bytes last = kHandleBytes;
    for (Bytes lost = most / kShareLost + kPageBytes; lost < most / 4; lost += most / 100) {
      const Bytes handle = finer_handle_bytes(most + lost, most);
      REQUIRE(handle % kPageBytes == 0);
      REQUIRE(handle <= last);
      REQUIRE(handle >= kFineHandleBytes);
      last = handle;
    }
    REQUIRE(finer_handle_bytes(most + most / 4 + kPageBytes, most) == kFineHandleBytes);
  }
}

TEST_CASE("a fitted block touches no more pages than cuMemAlloc takes", "[size_policy]") {
  for (Bytes begin = 0; begin < 6_MiB; begin += 211 * kAlignment) {
    for (Bytes wanted = kAlignment; wanted < 9_MiB; wanted += 173 * kAlignment) {
      const Bytes bytes = round_large(wanted);
      const Address at = place(begin, bytes, Fit::FewPages);
      REQUIRE(at >= begin);
      REQUIRE(at % (bytes < 2_MiB ? 512 : 64_KiB) == 0);
      REQUIRE(at - begin < kPageBytes);
      REQUIRE(align_up(at + bytes, kPageBytes) - align_down(at, kPageBytes) ==
              align_up(bytes, kPageBytes));
    }
  }
}
