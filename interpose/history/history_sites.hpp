// SPDX-License-Identifier: MIT
// The arithmetic of call sites: peaks, stretches, growth. The process that counts uses it, and
// so do readers of its ledger. No state of its own.
#pragma once

#include "interpose/history/ledger.hpp"

#include <span>

namespace custash::history {

// Brings the site up to date for stretches that ended while it did not change.
void catch_up(const ledger::Header& head, Site& site);

// An allocation is going to be counted.
void next_allocation(ledger::Header& head, std::span<Site> sites);

// A block of the site begins (sign 1) or ends (-1).
void change(ledger::Header& head, Site& site, std::int64_t bytes, int sign);

void count_lifetime(ledger::Header& head, const Site& site, Nanoseconds age);

// Whether its living bytes grow. To be called after catch_up().
bool grows(const ledger::Header& head, const Site& site);

}  // namespace custash::history
