// SPDX-License-Identifier: MIT
// Turns: threads that work one at a time, each when it is told to.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace custash::property {

class Turns {
 public:
  // Thread 0 is the caller.
  explicit Turns(int threads) {
    for (int i = 1; i < threads; ++i)
      threads_.emplace_back([this, i] { live(i); });
  }

  ~Turns() {
    give(kEnd, {});
    for (std::thread& thread : threads_)
      thread.join();
  }

  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

  // Returns when it is done.
  void on(int thread, const std::function<void()>& work) {
    if (thread == 0) return work();
    give(thread, work);
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return whose_ == kNobody; });
  }

 private:
  static constexpr int kNobody = -1;
  static constexpr int kEnd = -2;

  void give(int thread, std::function<void()> work) {
    {
      const std::lock_guard lock(mutex_);
      whose_ = thread;
      work_ = std::move(work);
    }
    changed_.notify_all();
  }

  void live(int self) {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return whose_ == self || whose_ == kEnd; });
      if (whose_ == kEnd) return;
      work_();
      whose_ = kNobody;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  int whose_ = kNobody;
  std::function<void()> work_;
  std::vector<std::thread> threads_;
};

}  // namespace custash::property
