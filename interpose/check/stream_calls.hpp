// SPDX-License-Identifier: MIT
// StreamCalls: the observer of calls for option check_streams. It reports to StreamReport which
// blocks each call names and which order it makes. No state.
#pragma once

#include "interpose/check/call.hpp"
#include "interpose/check/stream_order.hpp"

namespace custash::check {

class StreamCalls {
 public:
  using Token = streams::Clock;  // of a wait: what it covers

  static bool wants(const Call& call);
  static Token before(const Call& call) noexcept;
  static void after(const Call& call, CUresult result, const Token& token) noexcept;
};

}  // namespace custash::check
