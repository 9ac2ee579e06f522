// SPDX-License-Identifier: MIT
// The driver's pitches, kept by device, width and element.
#include "interpose/hooks/pitches.hpp"

#include "tests/catch.hpp"

#include <limits>
#include <thread>
#include <vector>

using namespace custash;

TEST_CASE("a pitch is the driver's for that device, width and element alone") {
  static Pitches pitches;
  CHECK_FALSE(pitches.find({0, 4, 100}));
  pitches.add({0, 4, 100}, {512, true});
  pitches.add({0, 8, 100}, {1024, true});
  pitches.add({1, 4, 100}, {640, false});
  const auto first = pitches.find({0, 4, 100});
  REQUIRE(first);
  CHECK(first->pitch == 512);
  CHECK(first->last_row_whole);
  CHECK(pitches.find({0, 8, 100})->pitch == 1024);
  CHECK(pitches.find({1, 4, 100})->pitch == 640);
  CHECK_FALSE(pitches.find({1, 4, 100})->last_row_whole);
  CHECK_FALSE(pitches.find({0, 16, 100}));
  CHECK_FALSE(pitches.find({1, 8, 100}));
  CHECK_FALSE(pitches.find({0, 4, 101}));
  CHECK_FALSE(pitches.find({0, 4, 99}));
}

TEST_CASE("the size of pitched memory is that of the layout that the driver showed") {
  const auto whole = PitchAnswer::from(100, 7, 512, 7 * 512);
  REQUIRE(whole);
  CHECK(whole->bytes(100, 9) == 9 * 512);
  const auto short_row = PitchAnswer::from(100, 7, 512, 6 * 512 + 100);
  REQUIRE(short_row);
  CHECK(short_row->bytes(100, 9) == 8 * 512 + 100);
  CHECK(short_row->bytes(100, 1) == 100);
  CHECK_FALSE(PitchAnswer::from(100, 7, 512, 8 * 512));  // a layout that is not understood
  CHECK_FALSE(PitchAnswer::from(100, 7, 64, 7 * 64));
  CHECK_FALSE(PitchAnswer::from(0, 7, 0, 0));
}

TEST_CASE("a size that no number holds is none") {
  constexpr Bytes kMost = std::numeric_limits<Bytes>::max();
  const PitchAnswer answer{512, true};
  CHECK(answer.bytes(100, 0) == 0);
  CHECK(answer.bytes(100, kMost / 512) == kMost / 512 * 512);
  CHECK(answer.bytes(100, kMost / 512 + 1) == 0);
  CHECK(answer.bytes(100, kMost) == 0);
}

TEST_CASE("questions that no slot can hold are not kept") {
  static Pitches pitches;
  for (const PitchQuestion& question : {PitchQuestion{64, 4, 100},
                                        PitchQuestion{-1, 4, 100},
                                        PitchQuestion{0, 0, 100},
                                        PitchQuestion{0, 17, 100},
                                        PitchQuestion{0, 4, 0},
                                        PitchQuestion{0, 4, Bytes{1} << 48U}}) {
    pitches.add(question, {512, true});
    CHECK_FALSE(pitches.find(question));
  }
}

TEST_CASE("threads fill the table together, and a full table answers rightly") {
  static Pitches pitches;
  constexpr Bytes kWidths = 4000;  // more than there are slots
  const auto pitch_of = [](Bytes width) { return (width + 511) / 512 * 512; };
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (Bytes width = 1; width <= kWidths; ++width) {
        const auto found = pitches.find({0, 4, width});
        if (found && found->pitch != pitch_of(width)) ++wrong;
        pitches.add({0, 4, width}, {pitch_of(width), true});
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  CHECK(wrong == 0);
  Bytes kept = 0;
  for (Bytes width = 1; width <= kWidths; ++width) {
    const auto found = pitches.find({0, 4, width});
    if (!found) continue;
    ++kept;
    CHECK(found->pitch == pitch_of(width));
  }
  CHECK(kept >= 900);
  CHECK(kept <= 1024);
}
