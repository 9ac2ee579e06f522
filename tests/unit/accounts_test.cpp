// SPDX-License-Identifier: MIT
// Blocks that count for a pool of the program's: from their allocation to their free, whichever
// way that goes.
#include "allocator/base/accounts.hpp"

#include "allocator/charged_memory.hpp"
#include "allocator/peer_processes.hpp"
#include "tests/unit/bed.hpp"

#include <atomic>
#include <thread>
#include <vector>

using namespace custash;

namespace {

struct Charged : Bed {
  using Bed::Bed;

  Address take(Bytes bytes, Accounts::Number to) {
    Address out = 0;
    REQUIRE(memory.allocate_on(to, sim.context(), s, NullStream::Legacy, bytes, &out).ok());
    return out;
  }

  Address take(Bytes bytes) { return take(bytes, account); }

  Bytes used() { return memory.accounts().sample(account).now; }

  CUstream s = stream();
  ChargedMemory memory{*allocator};
  Accounts::Number account = memory.accounts().open();
};

constexpr Bytes kSizes[] = {512, 64_KiB, 1_MiB, 3_MiB, 100_MiB};

}  // namespace

TEST_CASE("a block counts for its account until it is freed on its stream", "[accounts]") {
  for (const bool thread_caches : {true, false}) {
    Charged bed({}, {.backing = Backing::Vmm, .thread_caches = thread_caches});
    for (int round = 0; round < 3; ++round) {  // by the fast path from the second on
      for (const Bytes bytes : kSizes) {
        const Address p = bed.take(bytes);
        CHECK(bed.used() == bytes);
        BlockInfo info;
        REQUIRE(bed.allocator->find(p + bytes / 2, &info) == Ownership::Live);
        CHECK(info.account == bed.account);
        bed.free_on(bed.s, p);
        CHECK(bed.used() == 0);
      }
    }
  }
}

TEST_CASE("an account is charged no more than its limit", "[accounts]") {
  Charged bed({}, Bed::vmm());
  const Accounts::Number limited = bed.memory.accounts().open(10_MiB);
  CUcontext const context = bed.sim.context();
  for (int round = 0; round < 3; ++round) {
    const Address first = bed.take(6_MiB, limited);
    const Address second = bed.take(4_MiB, limited);
    Address none = 0;
    CHECK(
        bed.memory.allocate_on(limited, context, bed.s, NullStream::Legacy, 1, &none).code() ==
        CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(bed.memory.try_allocate_on(limited, context, bed.s, NullStream::Legacy, 512) == 0);
    bed.free_on(bed.s, first);
    bed.free_on(bed.s, second);
    CHECK(bed.memory.accounts().sample(limited).now == 0);
  }
  CHECK(bed.memory.accounts().sample(limited).most ==
        0);  // of what failed since the look before
}

TEST_CASE("a charged block leaves its account at a plain free, abroad and in other threads",
          "[accounts]") {
  Charged bed;
  CUstream const other = bed.stream();
  for (int round = 0; round < 3; ++round) {
    for (const Bytes bytes : kSizes) {
      bed.free(bed.take(bytes));
      CHECK(bed.used() == 0);
      bed.launch(other);
      bed.free_on(other, bed.take(bytes));
      CHECK(bed.used() == 0);
      const Address p = bed.take(bytes);
      REQUIRE(bed.allocator->record_stream(p, other, NullStream::Legacy).ok());
      bed.free_on(bed.s, p);
      CHECK(bed.used() == 0);
      const Address q = bed.take(bytes);
      std::thread([&] {
        REQUIRE(bed.sim.driver().ctx_push(bed.sim.context()) == CUDA_SUCCESS);
        bed.free_on(bed.s, q);
      }).join();
      CHECK(bed.used() == 0);
    }
  }
}

TEST_CASE(
    "a charged block that a graph or another process keeps leaves its account at its free",
    "[accounts]") {
  Charged bed;
  begin_capture(bed, bed.stream(), CU_STREAM_CAPTURE_MODE_RELAXED);
  std::vector<Address> captured;
  for (const Bytes bytes : kSizes)
    captured.push_back(bed.take(bytes));
  bed.free_all(captured);
  CHECK(bed.used() == 0);
}

TEST_CASE("a second free of a charged block settles nothing", "[accounts]") {
  Charged bed;
  const Address held = bed.take(1_MiB);
  for (const Bytes bytes : kSizes) {
    const Address p = bed.take(bytes);
    bed.free_on(bed.s, p);
    CHECK(bed.allocator->free_on(p, bed.s, NullStream::Legacy)->code() ==
          CUDA_ERROR_INVALID_VALUE);
    CHECK(bed.allocator->free(p)->code() == CUDA_ERROR_INVALID_VALUE);
    CHECK(bed.used() == 1_MiB);
  }
  bed.free(held);
  CHECK(bed.used() == 0);
}

TEST_CASE("accounts know the most since the last look", "[accounts]") {
  Charged bed;
  Accounts& accounts = bed.memory.accounts();
  const Accounts::Number second = accounts.open();
  REQUIRE(second != bed.account);
  const Address p = bed.take(2_MiB);
  const Address q = bed.take(4_MiB, second);
  bed.free(p);
  CHECK(accounts.sample(bed.account).most == 2_MiB);
  CHECK(accounts.sample(bed.account).most == 0);
  CHECK(accounts.sample(second).now == 4_MiB);
  CHECK(accounts.sample(second).most == 4_MiB);
  bed.free(q);
  const Accounts::Use last = accounts.sample(second);
  CHECK(last.now == 0);
  CHECK(last.most == 4_MiB);
  CHECK(accounts.sample(second).most == 0);
}

TEST_CASE("a number is given again when the last block of its account is freed", "[accounts]") {
  Charged bed;
  Accounts& accounts = bed.memory.accounts();
  const Address p = bed.take(100);
  accounts.close(bed.account);
  std::vector<Accounts::Number> rest;
  for (Accounts::Number each = accounts.open(); each != 0; each = accounts.open()) {
    CHECK(each != bed.account);
    rest.push_back(each);
  }
  CHECK(rest.size() == Accounts::kMost - 1);
  bed.free(p);
  CHECK(accounts.open() == bed.account);
  CHECK(accounts.open() == 0);
}

TEST_CASE("a request that is refused makes no other fail", "[accounts]") {
  Accounts accounts;
  const Accounts::Number number = accounts.open(1_MiB);
  std::atomic<bool> over{false};
  std::atomic<bool> granted{false};
  std::thread greedy([&] {
    while (!over.load())
      if (accounts.charge(number, 2_MiB)) granted.store(true);
  });
  bool refused = false;
  for (int i = 0; i < 100'000 && !refused; ++i) {
    refused = accounts.charge(number, 512) == std::nullopt;
    if (!refused) accounts.balance(number, 512);
  }
  over.store(true);
  greedy.join();
  CHECK_FALSE(refused);
  CHECK_FALSE(granted.load());
  CHECK(accounts.charge(number, ~Bytes{0}) == std::nullopt);
  CHECK(accounts.sample(number).now == 0);
}

TEST_CASE("spare bytes of other threads are in use by nobody", "[accounts]") {
  Accounts accounts;
  const Accounts::Number number = accounts.open(10_MiB);
  const auto allocate = [&](Bytes bytes) {
    const auto source = accounts.charge(number, bytes);
    if (source) accounts.confirm(number, *source);
    return source.has_value();
  };
  for (int i = 0; i < 8; ++i) {
    std::thread([&] {
      CHECK(allocate(6_MiB));
      accounts.balance(number, 6_MiB);
    }).join();
  }
  CHECK(allocate(5_MiB));
  const Accounts::Use use = accounts.sample(number);
  CHECK(use.now == 5_MiB);
  CHECK(use.most == 6_MiB);
}

TEST_CASE("threads that stay below a limit are never refused, and make no peak beyond it",
          "[accounts]") {
  constexpr int kThreads = 4;
  Accounts accounts;
  const Accounts::Number number = accounts.open(kThreads * 1_MiB);
  std::atomic<int> refused{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 200'000; ++round) {
        const Bytes bytes = static_cast<Bytes>(1 + (round * 37 + i) % 2048) * 512;
        const auto source = accounts.charge(number, bytes);
        if (!source) {
          ++refused;
          continue;
        }
        accounts.confirm(number, *source);
        accounts.balance(number, bytes);
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  CHECK(refused.load() == 0);
  const Accounts::Use use = accounts.sample(number);
  CHECK(use.now == 0);
  CHECK(use.most <= kThreads * 1_MiB);
  CHECK(use.most >= 1_MiB);
}
