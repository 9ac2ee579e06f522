// SPDX-License-Identifier: MIT
// Where pages count that are mapped at several places.
#include "interpose/history/mapped_pages.hpp"

#include "tests/catch.hpp"

#include <tuple>

using namespace custash;
using namespace custash::history;

namespace {

using Told = std::vector<std::tuple<char, Address, Bytes>>;

class Bed {
 public:
  Told map(Address address, Bytes bytes, CUmemGenericAllocationHandle handle) {
    return told(
        [&](auto added, auto removed) { pages_.map(address, bytes, handle, added, removed); });
  }

  Told unmap(Address address, Bytes bytes, bool known = true) {
    return told([&](auto added, auto removed) {
      REQUIRE(pages_.unmap(address, bytes, added, removed) == known);
    });
  }

 private:
  template <typename Body>
  Told told(Body body) {
    Told out;
    const auto note = [&](char what) {
      return [&out, what](Address address, Bytes bytes) {
        out.emplace_back(what, address, bytes);
      };
    };
    body(note('+'), note('-'));
    return out;
  }

  MappedPages pages_;
};

}  // namespace

TEST_CASE("a page counts at its newest place") {
  Bed bed;
  REQUIRE(bed.map(100, 10, 7) == Told{{'+', 100, 10}});
  REQUIRE(bed.map(200, 10, 7) == Told{{'-', 100, 10}, {'+', 200, 10}});
  REQUIRE(bed.unmap(100, 10).empty());
  REQUIRE(bed.unmap(200, 10) == Told{{'-', 200, 10}});
  REQUIRE(bed.unmap(200, 10, false).empty());
  REQUIRE(bed.map(300, 20, 7) == Told{{'+', 300, 20}});  // the handle is another page's
}

TEST_CASE("a page whose move is undone counts where it was") {
  Bed bed;
  (void)bed.map(100, 10, 7);
  (void)bed.map(200, 10, 7);
  REQUIRE(bed.unmap(200, 10) == Told{{'-', 200, 10}, {'+', 100, 10}});
  REQUIRE(bed.unmap(100, 10) == Told{{'-', 100, 10}});
}

TEST_CASE("one unmapping ends several pages") {
  Bed bed;
  (void)bed.map(100, 10, 7);
  (void)bed.map(110, 20, 8);
  (void)bed.map(130, 10, 9);
  REQUIRE(bed.unmap(100, 30) == Told{{'-', 100, 10}, {'-', 110, 20}});
  REQUIRE(bed.unmap(130, 10) == Told{{'-', 130, 10}});
}

TEST_CASE("a place whose unmapping was not seen is forgotten") {
  Bed bed;
  (void)bed.map(100, 10, 7);
  REQUIRE(bed.map(100, 10, 8) == Told{{'+', 100, 10}});
  REQUIRE(bed.map(200, 10, 7) == Told{{'+', 200, 10}});
}
