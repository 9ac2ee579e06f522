// SPDX-License-Identifier: MIT
// The handles that a program makes: how long they live, which may sleep, and by which numbers
// the driver knows them afterwards.
#include "interpose/hooks/handle_table.hpp"

#include "interpose/process/peer_clients.hpp"
#include "tests/catch.hpp"

using namespace custash;

namespace {

using Numbers = std::vector<HandleTable::Number>;

bool cards = false;
constexpr Bytes kSize = 2_MiB;

CUmemAllocationProp on_device(int device = 0) {
  CUmemAllocationProp properties{};
  properties.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
  return properties;
}

constexpr CUmemAccessDesc access_of(
    int device, CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
  return {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}, .flags = flags};
}

Numbers ended(const HandleTable::Unmapped& unmapped) {
  Numbers out;
  for (const auto& [number, handle] : unmapped.ended)
    out.push_back(number);
  return out;
}

// Handles 1, 2, … at addresses of their numbers times kSize.
struct Made {
  explicit Made(std::uint64_t count) {
    for (std::uint64_t i = 1; i <= count; ++i) {
      CHECK(table.made(i, kSize, on_device(), 0) == i);
      CHECK(table.mapped(i * kSize, kSize, 0, i));
      const CUmemAccessDesc access = access_of(0);
      table.accessed(i * kSize, kSize, &access, 1);
    }
  }

  // The numbers of those that may sleep, and what stays.
  Numbers sleepable(Bytes* stay = nullptr) {
    SleepSums sums;
    Numbers out;
    for (const MappedRange& each : table.may_leave(0, &sums))
      out.push_back(each.address / kSize);
    if (stay != nullptr) *stay = sums.mapped;
    return out;
  }

  void sleep() {
    SleepSums sums;
    asleep = table.may_leave(0, &sums);
    for (const MappedRange& each : asleep)
      table.set_handle(each, 0);
  }

  // Under these numbers.
  void wake(const Numbers& numbers) {
    for (std::size_t i = 0; i < asleep.size(); ++i) {
      asleep[i].handle = numbers[i];
      table.set_handle(asleep[i], asleep[i].handle);
    }
  }

  HandleTable table;
  std::vector<MappedRange> asleep;
};

}  // namespace

bool custash::peer_clients::in_use() {
  return cards;
}

TEST_CASE("a handle lives until its references and its mappings are gone") {
  HandleTable table;
  table.made(7, kSize, on_device(), 0);
  table.mapped(16_MiB, kSize, 0, 7);
  table.mapped(32_MiB, kSize, 0, 7);
  REQUIRE(table.released(7));
  CHECK(ended(table.unmapped(16_MiB, kSize)).empty());
  CHECK(ended(table.unmapped(32_MiB, kSize)) == Numbers{7});
  CHECK_FALSE(table.released(7));
  CHECK_FALSE(table.mapped(2_MiB, kSize, 0, 8));  // not the program's own
}

TEST_CASE("one unmap ends all mappings in its range and no other") {
  Made it(4);
  for (std::uint64_t i = 1; i <= 4; ++i)
    CHECK_FALSE(it.table.released(i)->is_last());
  CHECK(ended(it.table.unmapped(2 * kSize, 2 * kSize)) == Numbers{2, 3});
  CHECK(ended(it.table.unmapped(kSize, 4 * kSize)) == Numbers{1, 4});
}

TEST_CASE("what the driver refuses to end lives on") {
  HandleTable table;
  table.made(7, kSize, on_device(), 0);
  const auto handle = table.released(7);
  REQUIRE(handle);
  CHECK(handle->is_last());
  CHECK_FALSE(table.released(7));
  table.back(7, *handle);
  CHECK(table.released(7)->is_last());
}

TEST_CASE("whole handles at one address may sleep") {
  Made it(10);
  it.table.stays(1);
  it.table.stays_at(2 * kSize + 4096, 1);
  it.table.retained(3);
  it.table.mapped(20 * kSize, kSize, 0, 4);
  const CUmemAccessDesc none = access_of(0, CU_MEM_ACCESS_FLAGS_PROT_NONE);
  it.table.accessed(5 * kSize, kSize, &none, 1);
  const CUmemAccessDesc reads = access_of(0, CU_MEM_ACCESS_FLAGS_PROT_READ);
  it.table.accessed(6 * kSize, kSize, &reads, 1);
  const CUmemAccessDesc other = access_of(1);
  it.table.accessed(7 * kSize, kSize, &other, 1);  // one more device has access
  const CUmemAccessDesc host{.location = {.type = CU_MEM_LOCATION_TYPE_HOST},
                             .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  it.table.accessed(8 * kSize, kSize, &host, 1);
  it.table.accessed(9 * kSize, kSize / 2, &other, 1);
  REQUIRE(it.table.released(10));
  it.table.made(11, kSize, on_device(), 0);
  it.table.mapped(11 * kSize, kSize / 2, 0, 11);
  it.table.made(12, kSize, on_device(), 0);  // nowhere
  it.table.made(13, kSize, on_device(1), 0);
  Bytes stay = 0;
  CHECK(it.sleepable(&stay) == Numbers{7, 10});
  CHECK(stay == 10 * kSize);
  it.table.all_stay();
  CHECK(it.sleepable().empty());
}

TEST_CASE("what a network card may reach stays") {
  Made it(1);
  CUmemAllocationProp for_cards = on_device();
  for_cards.allocFlags.gpuDirectRDMACapable = 1;
  it.table.made(2, kSize, for_cards, 0);
  it.table.mapped(2 * kSize, kSize, 0, 2);
  const CUmemAccessDesc access = access_of(0);
  it.table.accessed(2 * kSize, kSize, &access, 1);
  CHECK(it.sleepable() == Numbers{1, 2});
  cards = true;
  CHECK(it.sleepable() == Numbers{1});
  cards = false;
}

TEST_CASE("memory that sleeps is known by its address, and sleeps once") {
  Made it(2);
  it.table.stays(2);
  it.sleep();
  CHECK(it.table.is_mapped(kSize));
  CHECK(it.table.is_mapped(3 * kSize - 1));
  CHECK_FALSE(it.table.is_mapped(3 * kSize));
  CHECK_FALSE(it.table.is_mapped(kSize - 1));
  Bytes stay = 0;
  CHECK(it.sleepable(&stay).empty());
  CHECK(stay == kSize);
  it.wake({1});
  CHECK(it.sleepable() == Numbers{1});
}

TEST_CASE("numbers are translated from the first sleep on") {
  Made it(3);
  CHECK(it.table.by_driver(1) == 1);
  it.sleep();
  it.wake({2, 1, 9});  // the driver issues numbers again
  CHECK(it.table.by_driver(1) == 2);
  CHECK(it.table.by_driver(2) == 1);
  CHECK(it.table.by_driver(3) == 9);
  CHECK(it.table.of_program(2) == 1);
  CHECK(it.table.of_program(9) == 3);
  CHECK(it.table.by_driver(77) == 77);
  CHECK(it.table.by_driver(9) == 0);  // the program has no such handle
  it.sleep();
  it.wake({1, 2, 3});
  CHECK(it.table.by_driver(9) == 9);
}

TEST_CASE("handles from elsewhere have numbers of their own, and stay") {
  Made it(1);
  it.sleep();
  it.wake({5});
  const HandleTable::Number other = it.table.obtained(1);
  CHECK(other != 1);
  CHECK(it.table.by_driver(other) == 1);
  CHECK(it.table.obtained(5) == 1);  // the program's own, once more
  CHECK(it.sleepable().empty());
  CHECK_FALSE(it.table.released(1)->is_last());
  REQUIRE(it.table.released(other));
  CHECK_FALSE(it.table.released(other));
}

TEST_CASE("a handle from elsewhere has a size once it is mapped") {
  Made it(1);
  const HandleTable::Number memory = it.table.obtained(50, 0);
  const HandleTable::Number multicast = it.table.obtained(51);
  for (const HandleTable::Number each : {memory, multicast})
    REQUIRE(it.table.mapped(each * 100 * kSize, 2 * kSize, 0, each));
  const auto sized = it.table.sized(memory, 2 * kSize);
  REQUIRE(sized);
  CHECK(sized->bytes == 2 * kSize);
  CHECK(sized->properties.location.id == 0);
  CHECK_FALSE(it.table.sized(memory, 2 * kSize));  // once
  CHECK_FALSE(it.table.sized(multicast, 2 * kSize));
  CHECK_FALSE(it.table.sized(1, kSize));  // the program's own
  Bytes stay = 0;
  CHECK(it.sleepable(&stay) == Numbers{1});
  CHECK(stay == 0);
  REQUIRE(it.table.released(memory));
  const auto before = it.table.unmapped(memory * 100 * kSize, kSize);
  REQUIRE(ended(before) == Numbers{memory});
  CHECK(before.ended[0].second.bytes == 2 * kSize);
}

TEST_CASE("a refused unmap changes nothing") {
  Made it(3);
  REQUIRE(it.table.released(2));
  const auto before = it.table.unmapped(kSize, 3 * kSize);
  CHECK(ended(before) == Numbers{2});
  CHECK_FALSE(it.table.any_mapped());
  it.table.back(before);
  CHECK(it.sleepable() == Numbers{1, 2, 3});
  CHECK(ended(it.table.unmapped(2 * kSize, kSize)) == Numbers{2});
}

TEST_CASE("a mapping that has ended is not counted below zero") {
  Made it(1);
  it.table.unmapped(kSize, kSize);
  it.table.unmapped(kSize, kSize);
  REQUIRE(it.table.released(1)->is_last());
  CHECK_FALSE(it.table.released(1));
}

TEST_CASE("access that is not known keeps a range awake") {
  Made it(2);
  it.table.access_unknown(2 * kSize, 1);
  CHECK(it.sleepable() == Numbers{1});
}

TEST_CASE("a number that the program has is not issued a second time") {
  Made it(1);
  it.sleep();
  const HandleTable::Number while_asleep = it.table.made(1, kSize, on_device(), 0);
  CHECK(while_asleep != 1);
  CHECK(it.table.by_driver(while_asleep) == 1);
  it.wake({5});
  CHECK(it.table.by_driver(1) == 5);
  const HandleTable::Number third = it.table.made(7, kSize, on_device(), 0);
  CHECK(third == 7);
  it.table.unmapped(kSize, kSize);
  REQUIRE(it.table.released(1));
  REQUIRE(it.table.released(while_asleep)->is_last());
  CHECK(it.table.made(1, kSize, on_device(), 0) == 1);
}

TEST_CASE("released memory that has slept needs no number") {
  Made it(1);
  REQUIRE(it.table.released(1));
  it.sleep();
  REQUIRE(it.asleep.size() == 1);
  CHECK(it.asleep[0].released);
  it.wake({8});
  CHECK(ended(it.table.unmapped(kSize, kSize)) == Numbers{1});
}
