// SPDX-License-Identifier: MIT
#include "interpose/history/python_readers.hpp"
#include "interpose/process/ranked_mutex.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>

#include <pthread.h>
#include <signal.h>

namespace custash::python {
namespace {

constexpr std::chrono::milliseconds kPatience{2};
constexpr unsigned kMost = 64;

struct Desk {
  RankedMutex mutex{HookRank::PythonDesk};
  std::condition_variable posted;
  std::condition_variable answered;
  bool started = false;
  bool busy = false;           // the reader is working
  std::uint64_t question = 0;  // the last that was asked
  std::uint64_t answer = 0;    // the last that was answered
  bool waiting = false;        // the thread that asked is still there
  const Interpreter* python = nullptr;
  Walk walk = nullptr;
  Thread* thread = nullptr;
  unsigned most = 0;
  unsigned size = 0;
  std::array<std::uint64_t, kMost> words{};
};

Desk& desk() {
  static Desk* const all = new Desk;
  return *all;
}

// Under the interpreter's lock the asking thread cannot run Python: it waits for the answer, or
// for the lock. So its frames stay.
void look(Desk& d) {
  std::array<std::uint64_t, kMost> words{};
  Thread* thread = nullptr;
  std::uint64_t question = 0;
  {
    const RankedLock guard(d.mutex);
    thread = d.waiting ? d.thread : nullptr;
    question = d.question;
  }
  const unsigned size =
      thread == nullptr
          ? 0
          : d.walk(*d.python, thread, d.python->frame_of(thread), words.data(), d.most);
  const RankedLock guard(d.mutex);
  if (question != d.question) return;
  d.words = words;
  d.size = size;
  d.answer = question;
}

// Once the interpreter is gone, it ends threads that ask for its lock by pthread_exit. So
// nothing here may need unwinding, and none of it is noexcept.
void* read_for_ever(void*) {
  Desk& d = desk();
  Thread* own = nullptr;
  for (;;) {
    {
      const RankedLock lock(d.mutex);
      while (!d.busy)
        d.mutex.wait(d.posted);
    }
    const Interpreter& python = *d.python;
    if (python.is_initialized() != 0) {
      if (own == nullptr) {
        (void)python.ensure();
      } else {
        python.restore(own);
      }
      look(d);
      own = python.save();
    }
    {
      const RankedLock guard(d.mutex);
      d.busy = false;
    }
    d.answered.notify_all();
  }
}

bool start(Desk& d) {
  if (d.started) return true;
  sigset_t all;
  sigset_t old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);  // the program's handlers run on its own threads
  pthread_t thread{};
  d.started = pthread_create(&thread, nullptr, read_for_ever, nullptr) == 0;
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
  if (d.started) pthread_detach(thread);
  return d.started;
}

}  // namespace

unsigned ask(const Interpreter& python, Walk walk, std::uint64_t* out, unsigned most) {
  Thread* const self = python.this_thread();
  if (self == nullptr || python.is_initialized() == 0) return 0;
  Desk& d = desk();
  const RankedLock lock(d.mutex);
  if (d.busy || !start(d))
    return 0;  // at another thread's question, or waiting for the interpreter
  d.python = &python;
  d.walk = walk;
  d.thread = self;
  d.most = std::min(most, kMost);
  d.busy = true;
  d.waiting = true;
  const std::uint64_t question = ++d.question;
  d.posted.notify_one();
  const auto until = std::chrono::steady_clock::now() + kPatience;
  bool in_time = true;
  while (in_time && d.answer != question && d.busy)
    in_time = d.mutex.wait_until(d.answered, until);
  d.waiting = false;
  if (d.answer != question) return 0;
  std::copy_n(d.words.begin(), d.size, out);
  return d.size;
}

}  // namespace custash::python
