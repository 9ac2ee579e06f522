// SPDX-License-Identifier: MIT
// Accounts: the bytes in use for each of the program's own memory pools, and the most that each
// may use. A block is charged to one account at most, from its allocation to its free. The
// numbers are exact at any moment. Lock free.
#pragma once

#include "allocator/base/atomic_max.hpp"
#include "allocator/base/units.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

namespace custash {

class Accounts {
 public:
  using Number = std::uint16_t;  // 1 to kMost; 0: no account

  static constexpr std::size_t kMost = 255;

  struct Use {
    Bytes now = 0;
    Bytes most = 0;  // since the look before
  };

  static constexpr Bytes kUnlimited = ~Bytes{0};

  // 0: all are taken.
  Number open(Bytes limit = kUnlimited);
  // Nothing more is charged to it. Another owner gets the number when its last block is freed.
  void close(Number number);

  // Before the allocation; what is charged then. Empty: that would be more than the limit.
  std::optional<Bytes> charge(Number number, Bytes requested) {
    Account& account = of(number);
    const Bytes limit = account.limit.load();
    const Bytes more = rounded(requested);
    // What does not fit is never charged: other requests must not be refused for it.
    for (Bytes used = account.used.load(); more <= limit && used <= limit - more;)
      if (account.used.compare_exchange_weak(used, used + more)) return used + more;
    return std::nullopt;
  }

  // The allocation has succeeded.
  void note_use(Number number, Bytes charged) { atomic_max(of(number).most, charged); }

  // Of what was charged before, with the same number of bytes.
  void settle(Number number, Bytes requested) { of(number).used.fetch_sub(rounded(requested)); }

  // What is in use, and the most since the last look.
  Use look(Number number);
  // The blocks have ended with their context, without a free.
  void forget(Number number);

 private:
  // On a cache line of its own: each pool's calls write to it.
  struct alignas(64) Account {
    std::atomic<Bytes> used{0};
    std::atomic<Bytes> most{0};
    std::atomic<Bytes> limit{kUnlimited};
    std::atomic<bool> open{false};
  };

  // The largest requests are too large for every device.
  static constexpr Bytes rounded(Bytes bytes) {
    return bytes > kUnlimited - 511 ? kUnlimited : (bytes + 511) & ~Bytes{511};
  }

  Account& of(Number number) { return accounts_[number - 1U]; }

  std::array<Account, kMost> accounts_{};
};

inline Accounts::Number Accounts::open(Bytes limit) {
  for (std::size_t i = 0; i < kMost; ++i) {
    bool open = false;
    if (accounts_[i].used.load() != 0 || !accounts_[i].open.compare_exchange_strong(open, true))
      continue;
    accounts_[i].most.store(0);
    accounts_[i].limit.store(limit);
    return static_cast<Number>(i + 1);
  }
  return 0;
}

inline void Accounts::close(Number number) {
  of(number).open.store(false);
}

inline Accounts::Use Accounts::look(Number number) {
  Account& account = of(number);
  const Bytes now = account.used.load();
  return {now, std::max(account.most.exchange(now), now)};
}

inline void Accounts::forget(Number number) {
  of(number).used.store(0);
  of(number).most.store(0);
}

}  // namespace custash
