// SPDX-License-Identifier: MIT
// GuardCalls: the observer of calls for option guard:. It notes which guarded blocks each
// launch names, and checks that copies and memsets stay inside theirs. With guard_fill:, every
// submission comes after the fills. No state.
#pragma once

#include "interpose/check/call.hpp"
#include "interpose/check/guard_book.hpp"

namespace custash::check {

class GuardCalls {
 public:
  struct Token {
    guards::Work work;
    std::uint64_t before = 0;  // of a wait: the newest work that it covers
  };

  static bool wants(const Call& call);
  static Token before(const Call& call) noexcept;
  static void after(const Call& call, CUresult result, Token& token) noexcept;
};

}  // namespace custash::check
