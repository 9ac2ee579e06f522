// SPDX-License-Identifier: MIT
// StreamReport: whether the program's streams order each use of device memory behind its
// allocation and before its free (docs/checking.md, option check_streams). Hooks report to it
// allocations, frees, work, events and waits. One for each process, behind one lock of its own,
// under which nothing else is called; never destroyed. It changes no answer of a call.
#pragma once

#include "allocator/base/config.hpp"
#include "interpose/check/guard_book.hpp"
#include "interpose/check/stream_order.hpp"

#include <optional>
#include <span>
#include <string>

namespace custash::streams {

// From now on. `symbol` finds functions of the driver.
void begin(const Config& config,
           void (*say)(const std::string& line),
           void* (*symbol)(const char* name));
[[nodiscard]] bool on() noexcept;
// From here on nothing is judged: custash does not see all order that the program makes.
void give_up() noexcept;
// Says what there is to say at the end.
void finish() noexcept;
void reset_lock_after_fork() noexcept;

// As observe.hpp has them, and also of calls in a capture.
// The block's free will wait for this stream.
void named(Address address, CUstream stream) noexcept;

// The stream of a call, in the current context. None where it is in a capture.
std::optional<Chain> chain_of(const observe::Stream& stream) noexcept;
// Of a block that is or was in use; takes no lock.
[[nodiscard]] bool may_know(Address address) noexcept;

// Work that the driver has taken.
void submitted(Chain chain,
               const char* name,
               std::span<const Named> addresses,
               Naming naming) noexcept;

// ---- Order.
enum class Special {
  TellsHost,    // the host may learn, without a call, that this work is over
  WaitsUnseen,  // the stream may wait for what the host or a kernel does
  Graph         // one of which custash does not know what it waits for and whom it tells
};
void special(Chain chain, Special what) noexcept;
void recorded(CUevent event, Chain chain) noexcept;
void recorded(CUevent event, CUcontext context) noexcept;
void waits(Chain chain, CUevent event) noexcept;
void waits(Chain chain, const Clock& clock) noexcept;
void waits(CUcontext context, CUevent event) noexcept;
void stream_destroyed(CUstream stream) noexcept;
void contexts_end() noexcept;

// What a call of the host waits for; query it before the call. And: it has returned.
Clock awaited(Chain chain) noexcept;
Clock awaited(CUevent event) noexcept;
Clock awaited(CUcontext context) noexcept;
void is_over(const Clock& clock) noexcept;

}  // namespace custash::streams
