// SPDX-License-Identifier: MIT
// Book: this process's ledger, and the lock of all its writers. Nothing else is called under
// the lock. Made at its first use, never destroyed.
#pragma once

#include "interpose/history/ledger_memory.hpp"
#include "interpose/process/ranked_mutex.hpp"

#include <string_view>

#include <time.h>

namespace custash::ledger {

struct Book {
  RankedMutex mutex{HookRank::Ledger};
  Storage memory;
  Header* head = nullptr;
  Rows<history::Event> events;
  Rows<history::Site> sites;
  Rows<LiveRow> live;
  Rows<SegmentRow> segments;
  Rows<stacks::Word> words;
  Rows<std::uint64_t> ends;  // of each stack, in `words`
  Rows<ModuleRow> modules;
  Rows<CodeRow> codes;
  Rows<char> texts;
  Rows<Counters> counters;
  Rows<HeldRow> held;
  Rows<Bytes> pages;
  Rows<Piece> pieces;

  // Below: to be called with the lock held.
  TextPlace add_text(std::string_view text);
};

// Null before it was made.
Book* book() noexcept;

// In a file of that name where one can be made. Throws std::bad_alloc.
Book& make_book(const char* path);

// CLOCK_REALTIME
inline Nanoseconds clock_now() noexcept {
  constexpr Nanoseconds kSecond = 1'000'000'000;
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<Nanoseconds>(now.tv_sec) * kSecond + static_cast<Nanoseconds>(now.tv_nsec);
}

}  // namespace custash::ledger
