// SPDX-License-Identifier: MIT
// ThreadBindings: what one thread remembers of the contexts and streams that it uses, and its
// thread caches there: a table asked with two or three loads. All bindings are dropped at once,
// by a new epoch, when a stream or a context goes. Released when the thread ends.
#pragma once

#include "allocator/cache/context_cache.hpp"

#include <array>
#include <cstdint>
#include <vector>

namespace custash {

struct StreamBinding {
  std::uint64_t epoch = 0;      // of the allocator that it is of, when it was filled
  CUcontext context = nullptr;  // null for a named stream, whose handle says enough
  CUstream stream = nullptr;    // null for plain calls
  ContextCache* cache = nullptr;
  StreamState* stream_state = nullptr;
  ThreadCache* thread_cache = nullptr;  // null until something was allocated or freed there
};

class ThreadBindings {
 public:
  // The calling thread's; made at its first call.
  static ThreadBindings& mine() { return mine_ != nullptr ? *mine_ : make_mine(); }

  // The same, or null where there is none yet.
  static ThreadBindings* known() { return mine_; }

  // Null when it is not remembered.
  StreamBinding* find(std::uint64_t epoch, CUcontext context, CUstream stream) {
    const std::size_t home = slot(context, stream);
    for (std::size_t i = 0; i < kProbes; ++i) {
      StreamBinding& binding = bindings_[(home + i) % kSeats];
      if (binding.stream == stream && binding.context == context && binding.epoch == epoch)
        return &binding;
    }
    return nullptr;
  }

  // The binding of a context's plain calls; nearly always the one that was requested last.
  StreamBinding* find_plain(std::uint64_t epoch, CUcontext context) {
    if (plain_->context == context && plain_->epoch == epoch && plain_->stream == nullptr)
      return plain_;
    StreamBinding* found = find(epoch, context, nullptr);
    if (found != nullptr) plain_ = found;
    return found;
  }

  // Remembers it, where an older one is forgotten.
  StreamBinding* remember(const StreamBinding& binding);

  // Its own stream has a state there, to be released at its end.
  void note_own_stream(ContextCache* cache);

  // The binding's thread cache, made at need.
  ThreadCache* thread_cache(StreamBinding& binding) {
    return binding.thread_cache != nullptr ? binding.thread_cache : make_thread_cache(binding);
  }

  // Tells per-thread streams apart.
  [[nodiscard]] std::uint64_t number() const { return number_; }

  ~ThreadBindings();

 private:
  static constexpr std::size_t kSeats = 256;
  static constexpr std::size_t kProbes = 4;

  ThreadBindings();
  static ThreadBindings& make_mine();
  ThreadCache* make_thread_cache(StreamBinding& binding);

  // Handles are addresses: the low bits say little.
  static std::size_t slot(CUcontext context, CUstream stream) {
    const auto bits =
        reinterpret_cast<std::uintptr_t>(context) ^ reinterpret_cast<std::uintptr_t>(stream);
    return (bits ^ (bits >> 7U) ^ (bits >> 15U)) % kSeats;
  }

  // Found without a call; a pointer alone may be in the static block of a library that is
  // loaded late.
  static constinit thread_local ThreadBindings* mine_
      __attribute__((tls_model("initial-exec")));

  std::uint64_t number_;
  std::array<StreamBinding, kSeats> bindings_{};
  StreamBinding* plain_ =
      &nobody_;  // the latest plain one: its place in bindings_ may have been given away
  StreamBinding nobody_;
  std::vector<ThreadCache*> thread_caches_;  // in all caches
  std::vector<ContextCache*> own_streams_;
};

}  // namespace custash
