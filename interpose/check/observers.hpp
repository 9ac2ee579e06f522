// SPDX-License-Identifier: MIT
// Observers of calls. Each is a class of static functions: wants(call) says whether it looks at
// calls of this entry, from its role alone, and has no side effects; before(call) returns a
// token, which after(call, result, token) receives. The driver's function runs in between. A
// nested call is seen once, because the driver's own calls do not come by here. To add an
// observer, write the class in a header and name it in `Observers`.
#pragma once

#include "interpose/check/call.hpp"
#include "interpose/check/guard_book.hpp"
#include "interpose/check/stream_order.hpp"

#include <optional>
#include <tuple>

namespace custash::check {

// For option check_streams: reports to StreamReport which blocks each call names and which
// order it makes. No state.
class StreamCalls {
 public:
  using Token = streams::Clock;  // of a wait: what it covers

  static bool wants(const Call& call);
  static Token before(const Call& call) noexcept;
  static void after(const Call& call, CUresult result, const Token& token) noexcept;
};

// For option guard:. Notes which guarded blocks each launch names, and checks that copies and
// memsets stay inside theirs. With +fill, every submission comes after the fills. No
// state.
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

template <typename... Each>
class ObserversOf {
 public:
  // A bit for each observer.
  static unsigned wanted_by(const Call& call) {
    unsigned bit = 1;
    unsigned out = 0;
    ((out |= Each::wants(call) ? bit : 0U, bit <<= 1U), ...);
    return out;
  }

  // The time before the call, for those that want it.
  ObserversOf(const Call& call, unsigned wanted) noexcept : call_(call) {
    unsigned bit = 1;
    ((before<Each>((wanted & bit) != 0), bit <<= 1U), ...);
  }

  void after(CUresult result) noexcept { (after<Each>(result), ...); }

 private:
  template <typename One>
  using Slot = std::optional<typename One::Token>;

  // Converts to the token, which so is made in its place.
  template <typename One>
  struct Made {
    const Call& call;

    // NOLINTNEXTLINE: as std::optional needs it
    operator typename One::Token() const noexcept { return One::before(call); }
  };

  template <typename One>
  void before(bool wanted) noexcept {
    if (wanted) std::get<Slot<One>>(tokens_).emplace(Made<One>{call_});
  }

  template <typename One>
  void after(CUresult result) noexcept {
    if (auto& token = std::get<Slot<One>>(tokens_)) One::after(call_, result, *token);
  }

  const Call& call_;
  std::tuple<Slot<Each>...> tokens_;
};

using Observers = ObserversOf<StreamCalls, GuardCalls>;

}  // namespace custash::check
