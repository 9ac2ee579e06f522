// SPDX-License-Identifier: MIT
#include "tools/command/live/devices.hpp"

#include "tests/catch.hpp"
#include "tests/unit/live/looks.hpp"

using namespace custash::live;

namespace {

constexpr auto kGi = static_cast<custash::Bytes>(kGiB);

}  // namespace

TEST_CASE("a device's memory belongs to programs, their caches and others") {
  Look look = look_at(kSecond);
  add(look, {.pid = 1, .in_use = kGiB, .reserved = 2 * kGiB});
  add(look, {.pid = 2, .in_use = kGiB, .reserved = kGiB});
  look.devices = {{4, custash::PciAddress{0, 1, 0}, {80 * kGi, 5 * kGi}}};
  const auto uses = uses_of(look);
  REQUIRE(uses.size() == 1);
  CHECK(uses[0].number == 4);
  CHECK(uses[0].total == 80 * kGi);
  CHECK(uses[0].in_use == 2 * kGi);
  CHECK(uses[0].cached == kGi);
  CHECK(uses[0].others == 2 * kGi);
  CHECK(number_of(uses, look.seen[0].page.devices[0]) == 4);
}

TEST_CASE("what sleeps is not on the device") {
  Look look = look_at(kSecond, {.pid = 1, .in_use = 3 * kGiB, .reserved = 4 * kGiB});
  look.seen[0].page.devices[0].asleep_bytes = 3 * kGiB;
  look.devices = {{4, custash::PciAddress{0, 1, 0}, {80 * kGi, 2 * kGi}}};
  const auto uses = uses_of(look);
  CHECK(uses[0].in_use == 0);
  CHECK(uses[0].cached == kGi);
  CHECK(uses[0].others == kGi);
}

TEST_CASE("what NVML read before a program grew is not below nothing") {
  Look look = look_at(kSecond, {.reserved = 6 * kGiB});
  look.devices = {{0, custash::PciAddress{0, 1, 0}, {80 * kGi, kGi}}};
  CHECK(uses_of(look)[0].others == custash::Bytes{0});
}

TEST_CASE("without NVML others are not known") {
  Look look = look_at(kSecond, {.device = 3});
  const auto uses = uses_of(look);
  REQUIRE(uses.size() == 1);
  CHECK(uses[0].number == 3);
  CHECK(uses[0].total == 8 * kGi);
  CHECK_FALSE(uses[0].others);
}

TEST_CASE("two devices that processes number alike are two devices") {
  Look look = look_at(kSecond);
  add(look, {.pid = 1, .bus = "0000:1A:00.0"});
  add(look, {.pid = 2, .bus = "0000:0B:00.0"});
  const auto uses = uses_of(look);
  REQUIRE(uses.size() == 2);
  CHECK(number_of(uses, look.seen[0].page.devices[0]) == 1);
  CHECK(number_of(uses, look.seen[1].page.devices[0]) == 0);
}

TEST_CASE("a device without an address is known by its number") {
  Look look = look_at(kSecond, {.pid = 1, .device = 1, .bus = ""});
  look.devices = {{0, custash::PciAddress{0, 1, 0}, {80 * kGi, 0}},
                  {1, custash::PciAddress{0, 2, 0}, {80 * kGi, 3 * kGi}}};
  const auto uses = uses_of(look);
  REQUIRE(uses.size() == 2);
  CHECK(uses[0].in_use == 0);
  CHECK(uses[1].in_use == kGi);
}

TEST_CASE("a device that nobody has used does not count") {
  Look look = look_at(kSecond, {.in_use = 0, .reserved = 0, .allocations = 0});
  CHECK(uses_of(look).empty());
}
