// SPDX-License-Identifier: MIT
#include "interpose/stacks.hpp"

#include "interpose/callers.hpp"
#include "interpose/python_frames.hpp"

#include <algorithm>
#include <atomic>

#include <unwind.h>

namespace custash::stacks {
namespace {

constexpr unsigned kOwnFrames = 12;  // between a door and take()

struct Walk {
  std::array<Word, kMostDepth + kOwnFrames> words;
  unsigned size = 0;
  unsigned most = 0;
};

_Unwind_Reason_Code step(_Unwind_Context* context, void* state) {
  auto* const walk = static_cast<Walk*>(state);
  const _Unwind_Ptr address = _Unwind_GetIP(context);
  if (address == 0 || walk->size == walk->most) return _URC_END_OF_STACK;
  walk->words[walk->size++] = address;
  return _URC_NO_REASON;
}

constinit std::atomic<bool> python_wanted{true};

std::uint64_t hash_of(std::span<const Word> words) {
  std::uint64_t hash = words.size();
  for (const Word word : words) {
    hash = (hash ^ word) * 0x9fb21c651e98df25ULL;
    hash ^= hash >> 32U;
  }
  return hash;
}

}  // namespace

void take(unsigned depth, Stack* out) noexcept {
  depth = std::min(depth, kMostDepth);
  Walk walk;
  walk.most = depth + kOwnFrames;
  if (depth > 0) _Unwind_Backtrace(step, &walk);
  // The door has noted its caller. Where it has not, our own frames are left to the reader, who
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

Id StackTable::add(std::span<const Word> words) {
  const std::uint64_t hash = hash_of(words);
  if (const auto known = ids_.find(hash); known != ids_.end()) return known->second;
  if (ends_.size() >= kMost) return kNone;
  words_.insert(words_.end(), words.begin(), words.end());
  ends_.push_back(words_.size());
  const auto id = static_cast<Id>(ends_.size() - 1);
  ids_.emplace(hash, id);
  return id;
}

std::span<const Word> StackTable::words(Id id) const {
  const std::size_t begin = id == 0 ? 0 : ends_[id - 1];
  return {words_.data() + begin, ends_[id] - begin};
}

}  // namespace custash::stacks
