// SPDX-License-Identifier: MIT
// Accounts: the bytes in use for each program-created memory pool, and the most that each
// may use. A block is charged to one account at most, from its allocation to its free. The
// numbers are exact at any moment.
//
// A free leaves its bytes with the thread, as spare ones, and the thread's next allocation
// takes them. So threads that share a pool seldom write to the same cache line. The total
// counts spare bytes. It is at most the most that was ever in use, so taking spare bytes makes
// no new peak. An allocation that brings the total beyond the peak collects all spare bytes
// first.
#pragma once

#include "allocator/base/mutex.hpp"
#include "allocator/base/units.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

namespace custash {

class Accounts {
 public:
  using Number = std::uint16_t;  // 1 to kMost; 0: no account

  static constexpr std::size_t kMost = 255;
  static constexpr Bytes kUnlimited = ~Bytes{0};

  struct Use {
    Bytes now = 0;
    Bytes most = 0;  // since the look before
  };

  enum class Source { Spare, Total };

  Accounts() = default;
  ~Accounts();
  Accounts(const Accounts&) = delete;
  Accounts& operator=(const Accounts&) = delete;

  // 0: all are taken, or there is no host memory.
  Number open(Bytes limit = kUnlimited);
  // Nothing more is charged to it. Another owner gets the number when its last block is freed.
  void close(Number number);

  // Before the allocation. Empty: that would be more than the limit.
  std::optional<Source> charge(Number number, Bytes requested);
  // The allocation has succeeded, or it has failed.
  void confirm(Number number, Source source);
  void undo(Number number, Bytes requested, Source source);
  // At the free; the same number of bytes.
  void balance(Number number, Bytes requested);

  // What is in use, and the most since the last look.
  Use sample(Number number);
  // The blocks have ended with their context, without a free.
  void forget(Number number);

  void reset_after_fork() { mutex_.reset_after_fork(); }

 private:
  static constexpr std::size_t kThreads = 32;  // more threads share

  struct alignas(64) Spare {
    std::atomic<Bytes> bytes{0};
  };

  using Spares = std::array<Spare, kThreads>;

  // On a cache line of its own. Order: all are sequentially consistent; `spares` is set before
  // the number is known to anybody.
  struct alignas(64) Account {
    std::atomic<Bytes> total{0};
    std::atomic<Bytes> most{0};
    std::atomic<Bytes> limit{kUnlimited};
    std::atomic<bool> open{false};
    std::atomic<Spares*> spares{nullptr};
  };

  Account& of(Number number) { return accounts_[number - 1U]; }

  static std::atomic<Bytes>& spare_of_this_thread(Account& account);
  void collect(Account& account) REQUIRES(mutex_);

  Mutex mutex_{LockRank::Accounts};
  std::array<Account, kMost> accounts_{};
};

}  // namespace custash
