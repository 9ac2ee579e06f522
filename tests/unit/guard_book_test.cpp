// SPDX-License-Identifier: MIT
// Which guarded block an address belongs to.
#include "interpose/check/guard_book.hpp"

#include "tests/catch.hpp"

using namespace custash;
using guards::GuardBook;
using guards::Place;

namespace {

guards::Block block(Address address, Bytes bytes) {
  guards::Block out;
  out.address = address;
  out.bytes = bytes;
  return out;
}

}  // namespace

TEST_CASE("faults of memory are told from other errors of the device") {
  for (const CUresult code : {CUDA_ERROR_ILLEGAL_ADDRESS,
                              CUDA_ERROR_MISALIGNED_ADDRESS,
                              CUDA_ERROR_INVALID_PC,
                              CUDA_ERROR_LAUNCH_FAILED})
    CHECK(guards::is_of_memory(code));
  for (const CUresult code : {CUDA_ERROR_ECC_UNCORRECTABLE,
                              CUDA_ERROR_LAUNCH_TIMEOUT,
                              CUDA_ERROR_ASSERT,
                              CUDA_ERROR_EXTERNAL_DEVICE})
    CHECK_FALSE(guards::is_of_memory(code));
}

TEST_CASE("an address belongs to the nearest block") {
  GuardBook book;
  CHECK_FALSE(book.nearest(1));
  book.allocated(block(1000, 100));
  book.allocated(block(9000, 100));
  const auto at = [&](Address address, Bytes bytes = 1) {
    return *book.nearest(address, bytes);
  };
  CHECK(at(1099).place == Place::Inside);
  CHECK(at(1099).distance == 99);
  CHECK(at(1100).place == Place::PastEnd);
  CHECK(at(1100).distance == 1);
  CHECK_FALSE(at(1100).touches);
  CHECK(at(8999).place == Place::BeforeBeginning);
  CHECK(at(8999).distance == 1);
  CHECK(at(8999).block.address == 9000);
  CHECK(at(1090, 20).place == Place::PastEnd);
  CHECK(at(1090, 20).distance == 10);
  CHECK(at(1090, 20).touches);
  CHECK(at(992, 16).place == Place::BeforeBeginning);
  CHECK(at(992, 16).distance == 8);
}

TEST_CASE("a block in use comes before a freed one") {
  GuardBook book;
  book.allocated(block(1000, 100));
  CHECK_FALSE(book.freed(1001, {}));
  CHECK(book.freed(1000, {}));
  CHECK_FALSE(book.freed(1000, {}));
  CHECK(book.nearest(1000)->block.freed != 0);
  book.allocated(block(1040, 100));  // the addresses rest no longer
  CHECK(book.nearest(1050)->block.freed == 0);
  CHECK(book.nearest(1050)->block.address == 1040);
  CHECK(book.nearest(1010)->place == Place::BeforeBeginning);  // the old one is forgotten
}

TEST_CASE("the blocks of a context that has ended are forgotten") {
  GuardBook book;
  for (const std::uintptr_t context : {1U, 2U}) {
    guards::Block living = block(context * 100'000, 100);
    living.context = reinterpret_cast<CUcontext>(context);
    guards::Block freed = living;
    freed.address += 1000;
    book.allocated(living);
    book.allocated(freed);
    book.freed(freed.address, {});
  }
  book.ended(reinterpret_cast<CUcontext>(1));
  CHECK(book.nearest(100'000)->block.address == 200'000);
  CHECK(book.nearest(101'000)->block.address == 200'000);
  CHECK(book.nearest(201'000)->block.freed != 0);
}

TEST_CASE("work is over up to the wait's beginning") {
  GuardBook book;
  auto* const one = reinterpret_cast<CUcontext>(1);
  const auto submit = [&](CUcontext context, std::uintptr_t stream, bool captured = false) {
    guards::Work work;
    work.context = context;
    work.stream = reinterpret_cast<CUstream>(stream);
    work.captured = captured;
    book.submitted(std::move(work));
    return book.now();
  };
  submit(one, 1);
  submit(one, 2);
  submit(nullptr, 1);
  submit(one, 1, true);
  const std::uint64_t now = book.now();
  submit(one, 1);
  book.over(one, reinterpret_cast<CUstream>(1), now);
  std::vector<bool> over;
  for (const guards::Work& work : book.work())
    over.push_back(work.over);
  CHECK(over == std::vector<bool>{true, false, false, false, false});
  book.over(one, std::nullopt, book.now());
  CHECK(book.work()[1].over);
  CHECK_FALSE(book.work()[2].over);
  CHECK_FALSE(book.work()[3].over);
}
