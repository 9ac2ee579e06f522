// SPDX-License-Identifier: MIT
// The quota of a process and of a group: nobody passes beyond it, and what fits is had.
#include "allocator/base/budget.hpp"
#include "tests/catch.hpp"

#include <array>
#include <thread>
#include <vector>

namespace custash {
namespace {

constexpr Bytes kPiece = 2_MiB;
constexpr Bytes kLimit = 100 * kPiece;

std::array<QuotaShare, 4>* emptied = nullptr;

// Charged, and the call is over.
bool take(auto& from, Bytes bytes) {
  Quota::Call call{Quota::Call::Later{}};
  return from.take(bytes, &call);
}

}  // namespace

TEST_CASE("quota: without a limit nothing is counted", "[quota]") {
  Quota quota;
  CHECK(take(quota, 1_GiB));
  CHECK(quota.room() == ~0ULL);
  CHECK(quota.own().charged == 0);
  CHECK_FALSE(quota.shared());
}

TEST_CASE("quota: what is measured leaves less room, and may exceed the limit", "[quota]") {
  Quota quota;
  quota.begin(kLimit, {});
  REQUIRE(take(quota, kLimit - kPiece));
  CHECK(quota.found(kLimit - kPiece, quota.before()));
  CHECK(quota.room() == kPiece);
  CHECK(quota.found(kLimit, quota.before()));
  CHECK(quota.room() == 0);
  CHECK_FALSE(take(quota, 1));
  CHECK(quota.found(3 * kLimit, quota.before()));
  CHECK(quota.room() == 0);
  quota.give(kLimit - kPiece);
  CHECK_FALSE(take(quota, 1));
}

TEST_CASE("quota: while a call is under way, what is measured never becomes less", "[quota]") {
  constexpr Bytes kContext = 10 * kPiece;
  Quota quota;
  quota.begin(kLimit, {});
  CHECK(quota.found(kContext, quota.before()));
  CHECK(quota.own().found == kContext);
  Quota::Before before = quota.before();
  {
    Quota::Call call{Quota::Call::Later{}};
    REQUIRE(quota.take(kPiece, &call));
    // It has been charged, and not allocated yet, before or after the question.
    CHECK_FALSE(quota.found(kContext, before));
    CHECK_FALSE(quota.found(kContext, quota.before()));
    CHECK(quota.own().found == kContext);
    CHECK_FALSE(quota.found(kContext + 2 * kPiece, quota.before()));
    CHECK(quota.own().found == kContext + kPiece);
    before = quota.before();
  }
  CHECK_FALSE(quota.found(kContext + kPiece, before));
  CHECK(quota.found(kContext + kPiece, quota.before()));
  CHECK(quota.own().found == kContext);
  before = quota.before();
  CHECK(take(quota, kPiece));  // began and ended meanwhile
  quota.give(kPiece);
  CHECK_FALSE(quota.found(0, before));
  CHECK(take(quota, kPiece));
  // One has allocated, another has released as much, and NVML saw the first.
  before = quota.before();
  CHECK(take(quota, kPiece));
  quota.give(kPiece);
  CHECK_FALSE(quota.found(kContext + 3 * kPiece, before));
  CHECK(quota.own().found == kContext);
  Quota::Call refused{Quota::Call::Later{}};
  CHECK_FALSE(quota.take(kLimit, &refused));
  CHECK(quota.found(2 * kPiece, quota.before()));
  CHECK(quota.own().found == 0);
}

TEST_CASE("quota: each charge, and none besides, asks for what is not charged", "[quota]") {
  static int asked;
  asked = 0;
  Quota quota;
  const Quota::Measure measure{[](int device, bool) noexcept { asked += device; }, 3};
  CHECK(take(quota, kPiece));
  quota.begin(kLimit, {}, measure);
  CHECK(asked == 0);
  CHECK(take(quota, kPiece));
  quota.give(kPiece);
  CHECK_FALSE(take(quota, 2 * kLimit));
  CHECK(asked == 9);  // before it refuses, once more
}

TEST_CASE("quota: a budget takes both or none", "[quota]") {
  DeviceBudget budget;
  budget.quota().begin(kLimit, {});
  budget.set_limit(2 * kLimit);
  CHECK(take(budget, kLimit));
  CHECK_FALSE(take(budget, kPiece));
  CHECK(budget.held() == kLimit);
  CHECK(budget.size() == kLimit);
  CHECK(budget.own_room() == kLimit);
  CHECK(budget.room() == 0);
  budget.give(kLimit);
  CHECK(budget.quota().used() == 0);
}

TEST_CASE("quota: members race, none is beyond, and all that fits is had", "[quota]") {
  std::array<QuotaShare, 16> shares{};
  std::array<Quota, 16> members;
  for (std::size_t i = 0; i < members.size(); ++i)
    members[i].begin(kLimit, {shares, &shares[i], [](std::span<QuotaShare>) {}});
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> had{0};
    std::atomic<bool> beyond{false};
    std::vector<std::thread> all;
    for (Quota& member : members) {
      all.emplace_back([&] {
        while (take(member, kPiece)) {
          had.fetch_add(1);
          if (had.load() * kPiece > kLimit) beyond.store(true);
        }
      });
    }
    for (std::thread& each : all)
      each.join();
    CHECK_FALSE(beyond);
    CHECK(had == 100);
    for (std::size_t i = 0; i < members.size(); ++i)
      members[i].give(shares[i].charged.load());
  }
}

TEST_CASE("quota: the shares of the dead are freed before anybody is refused", "[quota]") {
  std::array<QuotaShare, 4> shares{};
  emptied = &shares;
  Quota quota;
  quota.begin(kLimit, {shares, shares.data(), [](std::span<QuotaShare> given) {
                         CHECK(given.size() == 4);
                         (*emptied)[2].charged.store(0);
                       }});
  shares[1].charged.store(kPiece);
  shares[2].charged.store(kLimit - kPiece);
  CHECK(take(quota, kPiece));
  CHECK(shares[2].charged == 0);
  CHECK_FALSE(take(quota, kLimit - kPiece));
  CHECK(take(quota, kLimit - 2 * kPiece));
}

}  // namespace custash
