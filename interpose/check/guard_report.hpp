// SPDX-License-Identifier: MIT
// GuardReport: what guards have found in this process (docs/checking.md). Hooks report to it
// guarded blocks, of the work that may use them, of frees that failed and of faults; the core
// of bytes that were written. One for each process, behind one lock of its own, under which
// nothing else is called; never destroyed. It changes no answer of a call.
#pragma once

#include "allocator/base/config.hpp"
#include "interpose/check/guard_book.hpp"

#include <string>

namespace custash::guards {

// From now on. Complaints and, if requested, findings go to `say`.
// `symbol` finds functions of the driver.
void begin(const Config& config,
           void (*say)(const std::string& line),
           void* (*symbol)(const char* name));
// Looks around all blocks, and says what there is to say at the end.
void finish(Allocator& core) noexcept;
void reset_lock_after_fork() noexcept;

// As observe.hpp has them.
void context_ended(CUcontext context) noexcept;
// The driver or the core has answered that the address is no block's.

// Of this process's guarded blocks, whether in use or freed; takes no lock.
bool may_be_guarded(Address address) noexcept;

// Work that the driver has taken.
void submitted(Work&& work) noexcept;
[[nodiscard]] std::uint64_t now() noexcept;
void over(CUcontext context, std::optional<CUstream> stream, std::uint64_t number) noexcept;
// A copy or a memset is going to use these bytes.
void will_use(const char* call, Address address, Bytes bytes) noexcept;
// Rows of this many bytes each: these two, and others between them.
void will_use_rows(const char* call, Address first, Address last, Bytes bytes) noexcept;

// The core's, for GuardChoice::report.
void slack_written(const SlackWrite& what) noexcept;
// The host has met a guard of pinned memory there. `access`: "reads", "writes" or "uses". The
// stack begins above `called_from`, which calls handlers of signals.
void host_fault(Address address, const char* access, stacks::Word called_from) noexcept;
// A call has answered with an error of the device. The first one alone is reported.
void fault(CUresult code) noexcept;

// The host's own accesses to guarded pinned memory, outside of a buffer or after its free, end
// in SIGSEGV. The handler reports such a one and passes it on: the program ends or goes on as
// it would without custash. A handler that the program sets later hides this one. From now on.
// False: the system refuses.
bool heed_host_faults() noexcept;

}  // namespace custash::guards
