// SPDX-License-Identifier: MIT
// Which blocks a fault of a kernel may be about.
#include "interpose/check/guard_finding.hpp"
#include "tests/catch.hpp"

using namespace custash;
using guards::GuardBook;
using guards::Kind;

namespace {

constexpr Bytes kBlock = 1_MiB;
constexpr Address kFirst = 0x200000000;
constexpr Address kSecond = kFirst + 16_MiB;
constexpr Address kThird = kFirst + 32_MiB;

// Three blocks, far from each other.
struct Bed {
  GuardBook book;

  Bed() {
    for (const Address each : {kFirst, kSecond, kThird}) {
      guards::Block block;
      block.address = each;
      block.bytes = kBlock;
      book.allocated(block);
    }
  }

  void launch(std::initializer_list<Address> named) {
    guards::Work work;
    for (const Address each : named)
      work.note(each);
    book.submitted(std::move(work));
  }

  void all_is_over() { book.over(nullptr, std::nullopt, book.now()); }

  [[nodiscard]] std::vector<std::pair<Address, Kind>> at(Address address) const {
    std::vector<std::pair<Address, Kind>> out;
    for (const guards::Suspect& each : guards::suspects_at(book, address, 4096))
      out.emplace_back(each.block.address, each.kind);
    return out;
  }
};

using Found = std::vector<std::pair<Address, Kind>>;

}  // namespace

TEST_CASE("a fault in a freed block is about that block") {
  Bed bed;
  bed.book.freed(kSecond, {});
  bed.launch({kFirst});
  CHECK(bed.at(kSecond + 4096) == Found{{kSecond, Kind::AfterFree}});
}

TEST_CASE("a fault beside blocks is about the nearest that a launch names") {
  Bed bed;
  bed.launch({kFirst, kThird});
  CHECK(bed.at(kFirst + kBlock + 2_MiB) == Found{{kFirst, Kind::PastEnd}});
  CHECK(bed.at(kFirst - 4096) == Found{{kFirst, Kind::BeforeBeginning}});
  CHECK(bed.at(kThird - 4096) == Found{{kThird, Kind::BeforeBeginning}});
}

TEST_CASE("a block that lies nearer is named, too") {
  Bed bed;
  bed.launch({kFirst});
  CHECK(bed.at(kSecond - 4096) ==
        Found{{kFirst, Kind::PastEnd}, {kSecond, Kind::BeforeBeginning}});
}

TEST_CASE("work that is over counts no more") {
  Bed bed;
  bed.launch({kFirst});
  bed.all_is_over();
  bed.launch({kThird});
  CHECK(bed.at(kThird + kBlock) == Found{{kThird, Kind::PastEnd}});
  CHECK(bed.at(kFirst + kBlock) ==
        Found{{kThird, Kind::BeforeBeginning}, {kFirst, Kind::PastEnd}});
  bed.all_is_over();
  CHECK(bed.at(kFirst + kBlock) == Found{{kFirst, Kind::PastEnd}});
}

TEST_CASE("without blocks there is no suspect") {
  CHECK(guards::suspects_at(GuardBook(), kFirst, 4096).empty());
}
