// SPDX-License-Identifier: MIT
// The shapes of a wrapper: a submission, a call that allocates for itself, one that is only
// listened to, and one with a handler of its own. No state, no lock.
#pragma once

// clang-format off: first, as it includes cuda.h without the renaming macros
#include "interpose/real/real_driver.hpp"
// clang-format on
#include "interpose/hooks/sync_memops.hpp"
#include "interpose/process/captures.hpp"
#include "interpose/process/process.hpp"

#include <type_traits>

namespace custash::doors {

// The driver, or its entry, is not there: what a program gets that links an entry in vain.
inline constexpr CUresult kNoEntry = CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND;

// Gives back what the failed call may need; true when it is worth another try.
bool relieve(Allocator& core) noexcept;
// The same by other processes.
bool relieve_by_neighbours(Allocator& core) noexcept;

// `code`, or what a kernel's fault in the current context makes every call answer.
CUresult unless_broken(Allocator& core, CUresult code);

// The answer, once it has been looked at: where it is a kernel's fault, the core is told.
void note_fault() noexcept;

inline CUresult heard(CUresult result) noexcept {
  if (result != CUDA_SUCCESS && is_sticky(result)) [[unlikely]]
    note_fault();
  return result;
}

// `view(core)` says what the host may see; `call(real)` is the driver's call.
// A `stream` that is nullptr itself: the call names none, and is synchronous by its name.
template <typename Real, typename Stream, typename View, typename Call>
CUresult submit(Real* real,
                NullStream null,
                Stream stream,
                View view,
                Address first,
                Address second,
                Call call) noexcept {
  if (real == nullptr) return kNoEntry;
  Allocator* const core = process::core();
  if (core == nullptr) return call(real);
  CUresult result =
      CUDA_ERROR_OUT_OF_MEMORY;  // stays only if the core has no memory for itself
  try {
    Submission submission(*core, stream, null, view(*core), first, second);
    result = call(real);
    if (result == CUDA_ERROR_OUT_OF_MEMORY && relieve(*core)) result = call(real);
    submission.done(result);
    if (std::is_null_pointer_v<Stream> && sync_memops::in_use())
      result = sync_memops::settle(*core, null, first, second, result);
  } catch (...) {
  }
  return heard(result);
}

template <typename Real, typename Call>
CUresult with_relief(Real* real, Call call) noexcept {
  if (real == nullptr) return kNoEntry;
  CUresult result = call(real);
  if (result != CUDA_ERROR_OUT_OF_MEMORY) return heard(result);
  Allocator* const core = process::core();
  if (core == nullptr) return result;
  for (const auto relief : {relieve, relieve_by_neighbours})
    if (result == CUDA_ERROR_OUT_OF_MEMORY && relief(*core)) result = call(real);
  return heard(result);
}

template <typename Real, typename Call>
CUresult listened(Real* real, Call call) noexcept {
  return real == nullptr ? kNoEntry : heard(call(real));
}

template <typename Real, typename Call>
CUresult handled(Real* real, Call call) noexcept {
  if (real == nullptr) return kNoEntry;
  try {
    return heard(call(real));
  } catch (...) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
}

}  // namespace custash::doors
