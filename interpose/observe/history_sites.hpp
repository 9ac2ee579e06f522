// SPDX-License-Identifier: MIT
// The arithmetic of call sites: peaks, stretches, growth. For the process that counts and for
// whoever reads its ledger. No state of its own.
#pragma once

#include "interpose/observe/ledger.hpp"

#include <span>

namespace custash::history {

// Notes what the site was at moments that have gone by without its changing.
void catch_up(const ledger::Head& head, Site& site);

// An allocation is going to be counted.
void next_allocation(ledger::Head& head, std::span<Site> sites);

// A block of the site begins (sign 1) or ends (-1).
void change(ledger::Head& head, Site& site, std::int64_t bytes, int sign);

void count_lifetime(ledger::Head& head, const Site& site, Nanoseconds age);

// More and more of it lives. After catch_up().
bool grows(const ledger::Head& head, const Site& site);

}  // namespace custash::history
