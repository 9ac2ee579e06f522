// SPDX-License-Identifier: MIT
#include "interpose/observe/stacks.hpp"

#include "interpose/observe/python_frames.hpp"
#include "interpose/process/callers.hpp"

#include <algorithm>
#include <atomic>

#include <unwind.h>

namespace custash::stacks {
namespace {

constexpr unsigned kOwnFrames = 12;  // between a hook and take()

constexpr unsigned kMostWords = kMostDepth + kOwnFrames;

// [0] is an address in take() itself.
struct Walk {
  std::array<Word, kMostWords> words;
  std::array<const Word*, kMostWords> slots;  // where on the stack each of them is
  unsigned size = 0;
  unsigned most = 0;
};

_Unwind_Reason_Code step(_Unwind_Context* context, void* state) {
  auto* const walk = static_cast<Walk*>(state);
  const _Unwind_Ptr address = _Unwind_GetIP(context);
  if (address == 0 || walk->size == walk->most) return _URC_END_OF_STACK;
  walk->slots[walk->size] = reinterpret_cast<const Word*>(_Unwind_GetCFA(context)) - 1;
  walk->words[walk->size++] = address;
  return _URC_NO_REASON;
}

// The unwinder reads tables for each frame, one or two microseconds in all. Programs repeat
// their call paths. A walk from the same frame gives the same result as long as each return
// address is still where it was. They are compared from the innermost on, so nothing beyond the
// end of the stack is read.
// Order: `busy` is taken with acquire and given back with release, as a lock.
struct Remembered {
  std::atomic<bool> busy{false};
  const void* frame = nullptr;
  Walk walk;

  [[nodiscard]] bool holds(const void* now, unsigned most) const {
    if (frame != now || walk.most != most) return false;
    for (unsigned i = 1; i < walk.size; ++i)
      if (*const_cast<const volatile Word*>(walk.slots[i]) != walk.words[i]) return false;
    return true;
  }

  // Only where the stack has return addresses where x86-64 has them.
  [[nodiscard]] bool can_be_checked() const {
    for (unsigned i = 1; i < walk.size; ++i)
      if (*walk.slots[i] != walk.words[i]) return false;
    return walk.size > 1;
  }
};

constexpr std::size_t kRemembered = 256;

// Threads have different stacks, hence different frames.
Remembered& remembered(const void* frame, const void* caller) {
  static auto* const all = new std::array<Remembered, kRemembered>;
  const auto key = reinterpret_cast<Word>(frame) / 16 * 31 + reinterpret_cast<Word>(caller);
  return (*all)[(key * 0x9fb21c651e98df25ULL) >> 56U];
}

// `frame` is that of take().
__attribute__((noinline)) void walk_stack(const void* frame,
                                          const void* caller,
                                          unsigned most,
                                          Walk* out) {
  Remembered& known = remembered(frame, caller);
  const bool ours = !known.busy.exchange(true, std::memory_order_acquire);
  if (ours && known.holds(frame, most)) {
    *out = known.walk;
  } else {
    out->most = most;
    _Unwind_Backtrace(step, out);
    // Without walk_stack()'s own frame, which comes and goes.
    out->size -= out->size > 0 ? 1 : 0;
    std::copy_n(out->words.begin() + 1, out->size, out->words.begin());
    std::copy_n(out->slots.begin() + 1, out->size, out->slots.begin());
    if (ours) {
      known.walk = *out;
      known.frame = known.can_be_checked() ? frame : nullptr;
    }
  }
  if (ours) known.busy.store(false, std::memory_order_release);
}

// Order: none.
constinit std::atomic<bool> python_wanted{true};

}  // namespace

// Not inlined: its frame is where a walk begins.
__attribute__((noinline)) void take(unsigned depth, Stack* out) noexcept {
  depth = std::min(depth, kMostDepth);
  Walk walk;
  if (depth > 0) {
    walk_stack(
        __builtin_frame_address(0), __builtin_return_address(0), depth + kOwnFrames, &walk);
  }
  // The hook noted its caller. Where it did not, the reader removes our own frames, because it
  // knows names.
  const auto end = walk.words.begin() + walk.size;
  const auto caller = std::find(walk.words.begin(),
                                walk.words.begin() + std::min(walk.size, kOwnFrames),
                                reinterpret_cast<Word>(callers::current));
  const auto begin = caller == walk.words.begin() + std::min(walk.size, kOwnFrames)
                         ? walk.words.begin() + std::min(walk.size, 1U)
                         : caller;
  out->size = static_cast<unsigned>(std::min<std::ptrdiff_t>(end - begin, depth));
  std::copy(begin, begin + out->size, out->words.begin());
  if (depth > 0 && python_wanted.load(std::memory_order_relaxed))
    out->size += python_frames::take(out->words.data() + out->size, depth);
}

void with_python(bool wanted) noexcept {
  python_wanted.store(wanted);
}

}  // namespace custash::stacks
