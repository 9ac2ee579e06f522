// SPDX-License-Identifier: MIT
// Reads a ledger, for the process that writes it and for the launcher. A copy may hold any
// bytes: values that do not fit are dropped. Pure.
#pragma once

#include "interpose/history/ledger_book.hpp"

#include <string>
#include <vector>

namespace custash::ledger {

struct Copy {
  Header head{};
  bool whole = true;  // false: the process was stopped while it wrote
  std::vector<history::Event> events;
  std::vector<history::Site> sites;
  std::vector<LiveRow> live;
  std::vector<SegmentRow> segments;
  std::vector<stacks::Word> words;
  std::vector<std::uint64_t> ends;
  std::vector<ModuleRow> modules;
  std::vector<CodeRow> codes;
  std::vector<char> texts;
  std::vector<Counters> counters;
  std::vector<HeldRow> held;
  std::vector<Bytes> pages;
  std::vector<Piece> pieces;
};

// Under the book's lock. Only what reading_of() needs.
Copy copy_of(Book& book, history::Events events);

history::Reading reading_of(Copy copy);

}  // namespace custash::ledger
