// SPDX-License-Identifier: MIT
// Blocks that are freed and allocated again: which of them the book still knows.
#include "interpose/check/stream_book.hpp"

#include "tests/catch.hpp"

using namespace custash;
using streams::Fault;
using streams::StreamBook;

namespace {

struct Program {
  StreamBook book;
  streams::Chain chain = book.order.add({reinterpret_cast<CUstream>(16)}, nullptr, true);
  std::vector<Fault> faults;

  static Address address(std::size_t number) { return 0x3a5b40000000 + number * 4096; }

  void allocate(std::size_t number) {
    book.allocated({.address = address(number), .bytes = 4096}, std::nullopt);
  }

  void release(std::size_t number) { book.freed(address(number), {}, std::nullopt, &faults); }

  void use(std::size_t number) {
    const streams::Named named{address(number)};
    book.used(chain, {}, {&named, 1}, streams::Naming::Exact, &faults);
  }
};

}  // namespace

TEST_CASE("each use after a free is found, however often addresses come again") {
  for (const std::size_t addresses : {1U, 3U, 8U, 64U}) {
    Program program;
    constexpr std::size_t kRounds = 20'000;
    for (std::size_t i = 0; i < kRounds; ++i) {
      program.allocate(i % addresses);
      program.use(i % addresses);
      program.release(i % addresses);
      program.use(i % addresses);
    }
    CHECK(program.faults.size() == kRounds);
  }
}

TEST_CASE("the oldest freed blocks are forgotten first") {
  Program program;
  for (std::size_t i = 0; i < 10'000; ++i) {
    program.allocate(i);
    program.release(i);
  }
  program.use(0);
  CHECK(program.faults.empty());
  program.use(9'999);
  CHECK(program.faults.size() == 1);
}
