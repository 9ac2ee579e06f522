// SPDX-License-Identifier: MIT
// Walks up a stack that are recognised, on a stack that the test makes.
#include "interpose/history/remembered_walks.hpp"

#include "tests/catch.hpp"

#include <algorithm>
#include <initializer_list>
#include <random>
#include <utility>

using namespace custash::stacks;

namespace {

constexpr unsigned kMost = 28;

struct Made {
  std::array<Word, 256> stack{};

  // Return addresses, and where on the stack each lies.
  Walk walk(std::initializer_list<std::pair<unsigned, Word>> path, unsigned most = kMost) {
    Walk out;
    out.words[0] = 1;
    out.size = 1;
    out.most = most;
    for (const auto& [place, address] : path) {
      stack[place] = address;
      out.slots[out.size] = &stack[place];
      out.words[out.size++] = address;
    }
    return out;
  }

  const void* frame() const { return stack.data(); }
};

bool finds(const RememberedWalks& walks, const Made& made, const Walk& wanted) {
  Walk found;
  if (!walks.find(made.frame(), wanted.most, &found) || found.size != wanted.size) return false;
  return std::equal(
      found.words.begin(), found.words.begin() + found.size, wanted.words.begin());
}

}  // namespace

TEST_CASE("a walk is recognised while its return addresses stand") {
  Made made;
  RememberedWalks walks;
  const Walk walk = made.walk({{3, 100}, {7, 200}, {9, 300}});
  CHECK_FALSE(finds(walks, made, walk));
  walks.keep(made.frame(), walk);
  CHECK(finds(walks, made, walk));
  for (const unsigned place : {3U, 7U, 9U}) {
    const Word before = std::exchange(made.stack[place], 5);
    CHECK_FALSE(finds(walks, made, walk));
    made.stack[place] = before;
  }
  CHECK(finds(walks, made, walk));
  Walk other;
  CHECK_FALSE(walks.find(made.frame(), kMost + 1, &other));
  CHECK_FALSE(walks.find(made.stack.data() + 1, kMost, &other));
}

TEST_CASE("walks of one frame are kept apart") {
  Made made;
  RememberedWalks walks;
  walks.keep(made.frame(), made.walk({{3, 100}, {7, 200}, {9, 300}}));
  walks.keep(made.frame(), made.walk({{3, 100}, {7, 200}, {9, 301}}));
  walks.keep(made.frame(), made.walk({{3, 100}, {8, 200}, {9, 300}}));  // a larger frame
  CHECK(finds(walks, made, made.walk({{3, 100}, {7, 200}, {9, 300}})));
  CHECK(finds(walks, made, made.walk({{3, 100}, {7, 200}, {9, 301}})));
  made.stack[7] = 0;
  CHECK(finds(walks, made, made.walk({{3, 100}, {8, 200}, {9, 300}})));
  CHECK_FALSE(finds(walks, made, made.walk({{3, 101}, {8, 200}, {9, 300}})));
}

TEST_CASE("a walk that does not stand is not kept") {
  Made made;
  RememberedWalks walks;
  const Walk walk = made.walk({{3, 100}, {7, 200}});
  made.stack[7] = 201;
  walks.keep(made.frame(), walk);
  made.stack[7] = 200;
  CHECK_FALSE(finds(walks, made, walk));
  walks.keep(made.frame(), made.walk({}));  // nothing but the own frame
  CHECK_FALSE(finds(walks, made, made.walk({})));
}

TEST_CASE("of many walks the latest are recognised, and none wrongly") {
  Made made;
  RememberedWalks walks;
  std::mt19937 dice(7);
  for (int i = 0; i < 30'000; ++i) {
    const Word number = dice() % 20'000 + 1;
    const Walk walk = made.walk({{3, number % 7 + 1},
                                 {static_cast<unsigned>(4 + number % 3), number % 11 + 1},
                                 {20, number % 101 + 1},
                                 {21, number},
                                 {22, 7},
                                 {23, 8}});
    Walk found;
    if (walks.find(made.frame(), kMost, &found)) CHECK(finds(walks, made, walk));
    walks.keep(made.frame(), walk);
    CHECK(finds(walks, made, walk));
    made.stack = {};
  }
}
