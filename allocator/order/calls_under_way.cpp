// SPDX-License-Identifier: MIT
#include "allocator/order/calls_under_way.hpp"

#include "allocator/base/check.hpp"
#include "allocator/base/thread.hpp"

#include <chrono>
#include <thread>

namespace custash {

CallsUnderWay::Call::~Call() {
  end();
}

void CallsUnderWay::Call::begin(CallsUnderWay& all) {
  CUSTASH_ASSERT(all_ == nullptr);
  all_ = &all;
  thread_ = this_thread();
  Lock lock(all.mutex_);
  number_ = ++all.last_;
  older_ = all.newest_;
  CUSTASH_ASSERT(older_ == nullptr || older_->number_ < number_);
  CUSTASH_ASSERT((older_ == nullptr) == (all.oldest_ == nullptr));
  (older_ == nullptr ? all.oldest_ : older_->newer_) = this;
  all.newest_ = this;
  all.count_.fetch_add(1);
}

void CallsUnderWay::Call::end() {
  if (all_ == nullptr) return;
  Lock lock(all_->mutex_);
  CUSTASH_ASSERT((older_ == nullptr ? all_->oldest_ : older_->newer_) == this);
  CUSTASH_ASSERT((newer_ == nullptr ? all_->newest_ : newer_->older_) == this);
  CUSTASH_ASSERT(all_->count_.load() != 0);
  (older_ == nullptr ? all_->oldest_ : older_->newer_) = newer_;
  (newer_ == nullptr ? all_->newest_ : newer_->older_) = older_;
  all_->count_.fetch_sub(1);
  all_ = nullptr;
}

bool CallsUnderWay::others_until(std::uint64_t number) {
  for (const Call* call = oldest_; call != nullptr && call->number_ <= number;
       call = call->newer_) {
    if (call->thread_ != this_thread()) return true;
  }
  return false;
}

void CallsUnderWay::wait_for_others() {
  constexpr int kYields = 100;
  std::uint64_t until = 0;
  for (int turn = 0; any(); ++turn) {
    {
      Lock lock(mutex_);
      if (turn == 0) until = last_;
      if (!others_until(until)) return;
    }
    if (turn < kYields) {
      std::this_thread::yield();
    } else {
      const CancellationOff off;
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }
}

void CallsUnderWay::reset_after_fork() {
  mutex_.reset_after_fork();
  Lock lock(mutex_);
  oldest_ = nullptr;
  newest_ = nullptr;
  count_.store(0);
}

}  // namespace custash
