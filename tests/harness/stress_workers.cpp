// SPDX-License-Identifier: MIT
#include "tests/harness/stress_workers.hpp"

#include "tests/harness/detector.hpp"

namespace custash::harness::stress {

Workers& Workers::all() {
  static Workers* const the = new Workers;
  return *the;
}

Workers::Workers() {
  const int devices = std::min(device_count(), 2);
  for (int thread = 0; thread < kMostThreads; ++thread) {
    streams_.emplace_back();
    for (int device = 0; device < devices; ++device)
      streams_.back().push_back(
          {Stream::default_of(device), Stream::make(device), Stream::make(device)});
  }
  for (int thread = 0; thread < kMostThreads; ++thread)
    std::thread([this, thread] { loop(thread); }).detach();
}

void Workers::run(int count, const std::function<void(int)>& work) {
  std::unique_lock lock(mutex_);
  caller_ = detector::this_thread();
  work_ = &work;
  wanted_ = running_ = count;
  error_ = nullptr;
  ++round_;
  changed_.notify_all();
  changed_.wait(lock, [&] { return running_ == 0; });
  if (error_) std::rethrow_exception(error_);
}

void Workers::loop(int thread) {
  const unsigned self = detector::this_thread();
  std::uint64_t seen = 0;
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return round_ != seen; });
    seen = round_;
    if (thread >= wanted_) continue;
    lock.unlock();
    detector::thread_sync(caller_, self);
    std::exception_ptr error;
    try {
      (*work_)(thread);
    } catch (...) {
      error = std::current_exception();
    }
    detector::thread_sync(self, caller_);
    lock.lock();
    if (error) error_ = error;
    --running_;
    changed_.notify_all();
  }
}

}  // namespace custash::harness::stress
