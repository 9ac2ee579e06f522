// SPDX-License-Identifier: MIT
#include "allocator/base/accounts.hpp"

#include <algorithm>

namespace custash {

Accounts::Number Accounts::open() {
  for (std::size_t i = 0; i < kMost; ++i) {
    bool open = false;
    if (accounts_[i].used.load() != 0 || !accounts_[i].open.compare_exchange_strong(open, true))
      continue;
    accounts_[i].most.store(0);
    return static_cast<Number>(i + 1);
  }
  return 0;
}

void Accounts::close(Number number) {
  of(number).open.store(false);
}

Accounts::Use Accounts::look(Number number) {
  Account& account = of(number);
  const Bytes now = account.used.load();
  return {now, std::max(account.most.exchange(now), now)};
}

void Accounts::forget(Number number) {
  of(number).used.store(0);
  of(number).most.store(0);
}

}  // namespace custash
