// SPDX-License-Identifier: MIT
// The four kinds of hooks: a submission; a call that allocates for itself; one whose result
// alone is examined; one with a handler of its own. No state, no lock.
#pragma once

// clang-format off: first, as it includes cuda.h without the renaming macros
#include "interpose/real/real_driver.hpp"
// clang-format on
#include "allocator/base/thread.hpp"
#include "allocator/sleep/sleep.hpp"
#include "allocator/submission.hpp"
#include "interpose/hooks/call_names.hpp"
#include "interpose/hooks/sync_memops.hpp"
#include "interpose/process/captures.hpp"
#include "interpose/process/device_scope.hpp"
#include "interpose/process/process.hpp"

#include <type_traits>
#include <variant>

namespace custash::hooks {

// The driver, or this entry of it, is missing: the code that a program gets which links such an
// entry.
inline constexpr CUresult kNoEntry = CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND;

// Releases memory that the failed call may need; true when another try is worthwhile.
bool relieve(Allocator& core) noexcept;
// Asks other processes to release memory.
bool relieve_by_neighbours(Allocator& core) noexcept;

// `code`, or the error that every call in the current context returns after a kernel's fault.
CUresult unless_broken(Allocator& core, CUresult code);

// Around a call that may wait, in the driver or here. If its hook has a fast path, the waits
// beyond that disable cancellation for themselves.
template <bool kWaits>
using WaitOf = std::conditional_t<kWaits, CancellationOff, std::monostate>;

// Returns the driver's answer. If it is a kernel's fault, the core is informed.
void note_fault(CUresult code) noexcept;

inline CUresult note_result(CUresult result) noexcept {
  if (result != CUDA_SUCCESS && is_sticky(result)) [[unlikely]]
    note_fault(result);
  return result;
}

// The driver takes a call on a stream without a current context. But one kind of copy then
// refuses memory that was mapped, as custash's is: it is made once more in the stream's
// context.
template <typename Stream, typename Call>
CUresult in_context_of(Allocator& core, Stream stream, CUresult refused, Call call) {
  if constexpr (!std::is_null_pointer_v<Stream>) {
    const DeviceScope scope(core, stream);
    if (scope.entered()) return call();
  }
  return refused;
}

// `view(core)` says what the host may see, `names` what the call names (call_names.hpp);
// `call(real)` is the driver's call.
// A `stream` that is nullptr itself: the call names none, and is synchronous by its name. A
// copy to pageable memory waits, too.
template <Role kRole, typename Stream>
CUresult submit(auto* real,
                NullStream null,
                Stream stream,
                auto view,
                Address first,
                Address second,
                const auto& names,
                auto call) noexcept {
  if (real == nullptr) return kNoEntry;
  Allocator* const core = process::core();
  [[maybe_unused]] const WaitOf<std::is_null_pointer_v<Stream> || is_copy(kRole)> off;
  if (core == nullptr) return call(real);
  CUresult result =
      CUDA_ERROR_OUT_OF_MEMORY;  // remains only where the core runs out of host memory
  try {
    Submission submission(
        *core, stream, null, view(*core), first, second, call_names::ask(names));
    result = call(real);
    if (result == CUDA_ERROR_OUT_OF_MEMORY && relieve(*core)) result = call(real);
    if (result == CUDA_ERROR_INVALID_VALUE) [[unlikely]]
      result = in_context_of(*core, stream, result, [&] { return call(real); });
    submission.done(result);
    if (std::is_null_pointer_v<Stream> && sync_memops::in_use())
      result = sync_memops::finish(*core, null, first, second, result);
  } catch (...) {
  }
  return note_result(result);
}

template <typename Real, typename Call>
CUresult retry_after_trim(Real* real, Call call) noexcept {
  const CancellationOff off;
  if (real == nullptr) return kNoEntry;
  const KeepAwake awake(process::running());  // it may take the room of memory that sleeps
  CUresult result = call(real);
  if (result != CUDA_ERROR_OUT_OF_MEMORY) return note_result(result);
  Allocator* const core = process::core();
  if (core == nullptr) return result;
  for (const auto relief : {relieve, relieve_by_neighbours})
    if (result == CUDA_ERROR_OUT_OF_MEMORY && relief(*core)) result = call(real);
  return note_result(result);
}

// For a call that looks at the mapping of an address of the program's.
template <typename Call>
CUresult while_awake(Call call) {
  const KeepAwake awake(process::core());
  return call();
}

// For a call that a note comes before.
template <typename Call>
CUresult unless_refused(CUresult note, Call call) {
  return note == CUDA_SUCCESS ? call() : note;
}

template <bool kWaits, typename Real, typename Call>
CUresult observed(Real* real, Call call) noexcept {
  [[maybe_unused]] const WaitOf<kWaits> off;
  return real == nullptr ? kNoEntry : note_result(call(real));
}

template <bool kWaits, typename Real, typename Call>
CUresult handled(Real* real, Call call) noexcept {
  [[maybe_unused]] const WaitOf<kWaits> off;
  if (real == nullptr) return kNoEntry;
  try {
    return note_result(call(real));
  } catch (...) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
}

}  // namespace custash::hooks
