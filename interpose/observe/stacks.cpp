// SPDX-License-Identifier: MIT
#include "interpose/observe/stacks.hpp"

#include "interpose/observe/python_frames.hpp"
#include "interpose/process/callers.hpp"

#include <algorithm>
#include <atomic>
#include <new>

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

// Whether each return address is still where it was. They are compared from the innermost on,
// so nothing beyond the end of the stack is read.
bool stands(const Walk& walk) {
  for (unsigned i = 1; i < walk.size; ++i)
    if (*const_cast<const volatile Word*>(walk.slots[i]) != walk.words[i]) return false;
  return walk.size > 1;
}

// The unwinder reads tables for each frame, some microseconds in all. Programs repeat their
// call paths, and a walk that stands gives the same result again. Paths of one depth begin at
// the same frame: so many are kept for it. Order: `busy` is taken with acquire and given back
// with release, as a lock.
struct Remembered {
  static constexpr std::size_t kPaths = 8;

  struct Path {
    const void* frame = nullptr;
    Walk walk;
  };

  std::atomic<bool> busy{false};
  std::array<Path*, kPaths> paths{};  // the last used first

  bool find(const void* frame, unsigned most, Walk* out) {
    const auto found = std::find_if(paths.begin(), paths.end(), [&](const Path* each) {
      return each != nullptr && each->frame == frame && each->walk.most == most &&
             stands(each->walk);
    });
    if (found == paths.end()) return false;
    std::rotate(paths.begin(), found, found + 1);
    out->size = paths[0]->walk.size;
    std::copy_n(paths[0]->walk.words.begin(), out->size, out->words.begin());
    return true;
  }

  // Only where the stack has return addresses where x86-64 has them.
  void keep(const void* frame, const Walk& walk) {
    if (!stands(walk)) return;
    std::rotate(paths.begin(), paths.end() - 1, paths.end());
    if (paths[0] == nullptr) paths[0] = new (std::nothrow) Path;
    if (paths[0] != nullptr) *paths[0] = {frame, walk};
  }
};

constexpr std::size_t kRemembered = 512;

// Threads have different stacks, hence different frames.
Remembered& remembered(const void* frame) {
  static auto* const all = new std::array<Remembered, kRemembered>;
  return (*all)[(reinterpret_cast<Word>(frame) / 16 * 0x9fb21c651e98df25ULL) >> 55U];
}

// `frame` is that of take().
__attribute__((noinline)) void walk_stack(const void* frame, unsigned most, Walk* out) {
  Remembered& known = remembered(frame);
  const bool ours = !known.busy.exchange(true, std::memory_order_acquire);
  if (!ours || !known.find(frame, most, out)) {
    out->most = most;
    _Unwind_Backtrace(step, out);
    // Without walk_stack()'s own frame, which comes and goes.
    out->size -= out->size > 0 ? 1 : 0;
    std::copy_n(out->words.begin() + 1, out->size, out->words.begin());
    std::copy_n(out->slots.begin() + 1, out->size, out->slots.begin());
    if (ours) known.keep(frame, *out);
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
    walk_stack(__builtin_frame_address(0), depth + kOwnFrames, &walk);
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
