// SPDX-License-Identifier: MIT
// GuardFinding: one thing that guards have found, and its forms as text and JSON
// (docs/checking.md). Pure, but for names, which take the loader's lock.
#pragma once

#include "interpose/check/guard_book.hpp"
#include "interpose/process/json.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace custash::guards {

enum class Kind {
  PastEnd,
  BeforeBeginning,
  Outside,  // one of these two
  AfterFree,
  SecondFree,
  PartFree,
  FreeBesideUse,     // no stream's order puts a use before the free
  BeforeAllocation,  // nor a use behind the allocation
  Unknown,           // no block is suspected
};

// How it was found.
enum class Source { Fault, Slack, Free, Call, Streams, Host };

struct Suspect {
  Block block;
  Kind kind = Kind::Outside;
  Bytes distance = 0;  // bytes; 0: not known
};

struct GuardFinding {
  Source source = Source::Fault;
  bool certain = false;  // else one of the suspects is meant, or none of them
  int error = 0;         // of a fault
  std::string call;  // of a copy or a memset; Streams: of the use; Host, Fault: what it does
  Address page = 0;  // where a kernel has faulted, up to a page; 0: not known
  Words told_to;     // the call that found it
  std::vector<Suspect> suspects;
  std::vector<Work> work;  // newest first
};

const char* name_of(Kind kind);
const char* name_of(Source source);

// Lines that begin with "custash: ".
std::string text_of(const GuardFinding& finding);
void write_json(const GuardFinding& finding, JsonWriter* out);

// ---- Which blocks a fault of a kernel may be about: guard_suspects.cpp.

// How the address lies to the block.
Kind kind_at(const Near& near);

// The blocks that work in flight names. One that was freed before comes first.
std::vector<Suspect> suspects_in_flight(const GuardBook& book);

// For a fault at one of these bytes: the freed block that lay there. Else the nearest block of
// those that work in flight names, and one that lies nearer still.
std::vector<Suspect> suspects_at(const GuardBook& book, Address address, Bytes bytes);

}  // namespace custash::guards
