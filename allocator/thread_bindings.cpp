// SPDX-License-Identifier: MIT
#include "allocator/thread_bindings.hpp"

#include "allocator/base/rule.hpp"

#include <algorithm>
#include <atomic>

#include <pthread.h>

namespace custash {
namespace {

std::atomic<std::uint64_t> next_number{1};

// Runs after the thread's own destructors, which may still free memory; should something of the
// thread come even later, it gets new bindings, and these are released in their turn.
struct ThreadEnd {
  ThreadEnd() {
    made = pthread_key_create(&key, [](void* bindings) {
             delete static_cast<ThreadBindings*>(bindings);
           }) == 0;
  }

  // Threads that end after the library has gone must not return here.
  ~ThreadEnd() {
    if (made) pthread_key_delete(key);
  }

  pthread_key_t key{};
  bool made = false;
};

}  // namespace

constinit thread_local ThreadBindings* ThreadBindings::mine_ = nullptr;

ThreadBindings& ThreadBindings::make_mine() {
  static const ThreadEnd end;
  mine_ = new ThreadBindings;
  // Without it a thread's end costs what its thread caches hold, until the next time all are
  // emptied.
  if (end.made) pthread_setspecific(end.key, mine_);
  return *mine_;
}

ThreadBindings::ThreadBindings() : number_(next_number.fetch_add(1)) {
}

ThreadBindings::~ThreadBindings() {
  mine_ = nullptr;
  try {
    for (ThreadCache* thread_cache : thread_caches_)
      thread_cache->cache->retire_thread_cache(thread_cache);
    for (ContextCache* cache : own_streams_)
      if (holds(Rule::ended_threads_give_their_stream_state_back))
        cache->stream_ends().thread_ended(number_);
  } catch (...) {
    // No memory for it on the host: what is left of the thread stays where it is.
  }
}

void ThreadBindings::note_own_stream(ContextCache* cache) {
  if (std::find(own_streams_.begin(), own_streams_.end(), cache) == own_streams_.end())
    own_streams_.push_back(cache);
}

StreamBinding* ThreadBindings::remember(const StreamBinding& binding) {
  const std::size_t home = slot(binding.context, binding.stream);
  std::size_t at = home;
  for (std::size_t i = 0; i < kProbes; ++i) {
    const StreamBinding& there = bindings_[(home + i) % kSeats];
    const bool same = there.stream == binding.stream && there.context == binding.context;
    if (!same && there.epoch == binding.epoch) continue;
    at = (home + i) % kSeats;
    break;
  }
  bindings_[at] = binding;
  return &bindings_[at];
}

ThreadCache* ThreadBindings::make_thread_cache(StreamBinding& binding) {
  binding.thread_cache = binding.cache->thread_cache(binding.stream_state);
  if (std::find(thread_caches_.begin(), thread_caches_.end(), binding.thread_cache) ==
      thread_caches_.end())
    thread_caches_.push_back(binding.thread_cache);
  return binding.thread_cache;
}

}  // namespace custash
