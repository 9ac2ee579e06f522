// SPDX-License-Identifier: MIT
#include "allocator/base/accounts.hpp"

#include "allocator/base/atomic_max.hpp"
#include "allocator/base/rule.hpp"

#include <algorithm>
#include <memory>
#include <new>

namespace custash {
namespace {

// The largest requests are too large for every device.
constexpr Bytes rounded(Bytes bytes) {
  return bytes > Accounts::kUnlimited - 511 ? Accounts::kUnlimited
                                            : (bytes + 511) & ~Bytes{511};
}

// Order: none, a number that was not given before.
constinit std::atomic<std::size_t> threads{0};
constinit thread_local std::size_t own_number = 0;  // plus one

std::size_t number_of_this_thread() {
  if (own_number == 0) own_number = threads.fetch_add(1, std::memory_order_relaxed) + 1;
  return own_number;
}

// Takes up to `bytes` from `spare` and returns the amount taken.
Bytes take(std::atomic<Bytes>& spare, Bytes bytes) {
  Bytes there = spare.load();
  while (there != 0 && !spare.compare_exchange_weak(there, there - std::min(there, bytes))) {
  }
  return std::min(there, bytes);
}

bool add(std::atomic<Bytes>& total, Bytes bytes, Bytes limit) {
  for (Bytes used = total.load(); bytes <= limit && used <= limit - bytes;)
    if (total.compare_exchange_weak(used, used + bytes)) return true;
  return false;
}

}  // namespace

Accounts::~Accounts() {
  for (Account& each : accounts_)
    delete each.spares.load();
}

std::atomic<Bytes>& Accounts::spare_of_this_thread(Account& account) {
  return (*account.spares.load())[number_of_this_thread() % kThreads].bytes;
}

// A thread may free again while this visits the others. So it looks until there is nothing.
void Accounts::collect(Account& account) {
  constexpr int kTurns = 8;
  Bytes found = 1;
  for (int i = 0; i < kTurns && found != 0; ++i) {
    found = 0;
    for (Spare& each : *account.spares.load())
      if (each.bytes.load() != 0) found += each.bytes.exchange(0);
    account.total.fetch_sub(found);
  }
}

Accounts::Number Accounts::open(Bytes limit) {
  auto made = std::unique_ptr<Spares>(new (std::nothrow) Spares);
  if (made == nullptr) return 0;
  const Lock lock(mutex_);
  for (std::size_t i = 0; i < kMost; ++i) {
    Account& account = accounts_[i];
    if (account.spares.load() != nullptr) collect(account);
    bool open = false;
    if (account.total.load() != 0 || !account.open.compare_exchange_strong(open, true))
      continue;
    if (account.spares.load() == nullptr) account.spares.store(made.release());
    account.most.store(0);
    account.limit.store(limit);
    return static_cast<Number>(i + 1);
  }
  return 0;
}

void Accounts::close(Number number) {
  of(number).open.store(false);
}

// What does not fit is never charged: other requests must not be refused for it.
std::optional<Accounts::Source> Accounts::charge(Number number, Bytes requested) {
  Account& account = of(number);
  const Bytes bytes = rounded(requested);
  const Bytes taken = take(spare_of_this_thread(account), bytes);
  if (taken == bytes) return Source::Spare;
  const Bytes limit =
      holds(Rule::pools_end_at_their_maximum) ? account.limit.load() : kUnlimited;
  if (add(account.total, bytes - taken, limit)) return Source::Total;
  spare_of_this_thread(account).fetch_add(taken);
  const Lock lock(mutex_);  // no thread collects in between: what is refused does not fit
  collect(account);
  if (add(account.total, bytes, limit)) return Source::Total;
  return std::nullopt;
}

void Accounts::confirm(Number number, Source source) {
  Account& account = of(number);
  if (source == Source::Spare || account.total.load() <= account.most.load()) return;
  const Lock lock(mutex_);
  collect(account);
  atomic_max(account.most, account.total.load());
}

void Accounts::undo(Number number, Bytes requested, Source source) {
  if (source == Source::Spare)
    balance(number, requested);
  else
    of(number).total.fetch_sub(rounded(requested));
}

void Accounts::balance(Number number, Bytes requested) {
  spare_of_this_thread(of(number)).fetch_add(rounded(requested));
}

Accounts::Use Accounts::sample(Number number) {
  Account& account = of(number);
  const Lock lock(mutex_);
  collect(account);
  const Bytes now = account.total.load();
  return {now, std::max(account.most.exchange(now), now)};
}

void Accounts::forget(Number number) {
  Account& account = of(number);
  const Lock lock(mutex_);
  collect(account);
  account.total.store(0);
  account.most.store(0);
}

}  // namespace custash
