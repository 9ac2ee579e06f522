// SPDX-License-Identifier: MIT
#include "interpose/history/stacks.hpp"

#include "interpose/history/python_frames.hpp"
#include "interpose/history/remembered_walks.hpp"
#include "interpose/process/callers.hpp"
#include "interpose/process/quietly.hpp"

#include <algorithm>
#include <atomic>

#include <unwind.h>

namespace custash::stacks {
namespace {

_Unwind_Reason_Code step(_Unwind_Context* context, void* state) {
  auto* const walk = static_cast<Walk*>(state);
  const _Unwind_Ptr address = _Unwind_GetIP(context);
  if (address == 0 || walk->size == walk->most) return _URC_END_OF_STACK;
  walk->slots[walk->size] = reinterpret_cast<const Word*>(_Unwind_GetCFA(context)) - 1;
  walk->words[walk->size++] = address;
  return _URC_NO_REASON;
}

// The walks of the threads whose stacks lie there.
// Order: `busy` is taken with acquire and returned with release, as a lock.
struct Shelf {
  std::atomic<bool> busy{false};
  RememberedWalks* walks = nullptr;
};

Shelf& shelf_of(const void* frame) {
  constexpr unsigned kShelves = 64;
  constexpr unsigned kStretch = 18;  // most threads use no more of their stack: 256 KiB
  static std::array<Shelf, kShelves> all;
  const Word stretch = reinterpret_cast<Word>(frame) >> kStretch;
  return all[(stretch * 0x9fb21c651e98df25ULL) >> 58U];
}

// `frame` is that of capture(). Host memory may run out.
__attribute__((noinline)) void walk_stack(const void* frame, unsigned most, Walk* out) {
  Shelf& shelf = shelf_of(frame);
  const bool ours = !shelf.busy.exchange(true, std::memory_order_acquire);
  if (!ours || shelf.walks == nullptr || !shelf.walks->find(frame, most, out)) {
    out->size = 0;
    out->most = most;
    _Unwind_Backtrace(step, out);
    // Without walk_stack()'s own frame, which comes and goes.
    out->size -= out->size > 0 ? 1 : 0;
    std::copy_n(out->words.begin() + 1, out->size, out->words.begin());
    std::copy_n(out->slots.begin() + 1, out->size, out->slots.begin());
    if (ours) {
      quietly([&] {
        if (shelf.walks == nullptr) shelf.walks = new RememberedWalks;
        shelf.walks->keep(frame, *out);
      });
    }
  }
  if (ours) shelf.busy.store(false, std::memory_order_release);
}

}  // namespace

// Not inlined: its frame is where a walk begins.
__attribute__((noinline)) void capture(unsigned depth, Stack* out) noexcept {
  depth = std::min(depth, kMostDepth);
  Walk walk;
  if (depth > 0) {
    walk_stack(__builtin_frame_address(0), depth + kOwnFrames, &walk);
  }
  // The hook noted its caller. If it did not, the reader removes our own frames, because it
  // knows names.
  const auto end = walk.words.begin() + walk.size;
  const auto caller = std::find(walk.words.begin(),
                                walk.words.begin() + std::min(walk.size, kOwnFrames),
                                reinterpret_cast<Word>(callers::noted()));
  const auto begin = caller == walk.words.begin() + std::min(walk.size, kOwnFrames)
                         ? walk.words.begin() + std::min(walk.size, 1U)
                         : caller;
  out->size = static_cast<unsigned>(std::min<std::ptrdiff_t>(end - begin, depth));
  std::copy(begin, begin + out->size, out->words.begin());
  if (depth > 0) out->size += python_frames::capture(out->words.data() + out->size, depth);
}

}  // namespace custash::stacks
