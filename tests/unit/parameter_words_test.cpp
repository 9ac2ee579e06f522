// SPDX-License-Identifier: MIT
// What places in structures have held, and which of them are believed.
#include "interpose/check/parameter_words.hpp"

#include "tests/catch.hpp"

using custash::streams::ParameterWords;
using Held = ParameterWords::Held;

namespace {

constexpr const char* kKernel = "kernel";

void saw_often(ParameterWords& words, std::size_t place, int times = 1000) {
  for (int i = 0; i < times; ++i)
    CHECK(words.saw(kKernel, place, Held::InUse));
}

}  // namespace

TEST_CASE("a freed address is believed where addresses in use were before") {
  ParameterWords words;
  saw_often(words, 3);
  CHECK(words.saw(kKernel, 3, Held::Freed));
  CHECK(words.saw(kKernel, 3, Held::Freed));
  saw_often(words, 4, 999);
  CHECK_FALSE(words.saw(kKernel, 4, Held::Freed));
  saw_often(words, 5);
  CHECK(words.saw(kKernel, 5, Held::End));
  CHECK(words.saw(kKernel, 5, Held::Freed));
}

TEST_CASE("a place that has held something else is never believed again") {
  for (const Held other : {Held::Other, Held::Freed}) {
    ParameterWords words;
    CHECK(words.may_be(kKernel, 1));
    CHECK_FALSE(words.saw(kKernel, 1, other));
    for (int i = 0; i < 100; ++i)
      CHECK_FALSE(words.saw(kKernel, 1, Held::InUse));
    CHECK_FALSE(words.may_be(kKernel, 1));
    CHECK(words.may_be(kKernel, 2));
    CHECK(words.may_be("another", 1));
  }
  ParameterWords words;
  saw_often(words, 1, 100);
  CHECK_FALSE(words.saw(kKernel, 1, Held::Other));
}

TEST_CASE("a whole parameter is always believed") {
  ParameterWords words;
  for (const Held held : {Held::Other, Held::Freed, Held::End, Held::InUse})
    CHECK(words.saw(kKernel, 0, held));
}
