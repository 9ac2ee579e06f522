// SPDX-License-Identifier: MIT
// Work done by several processes at once, and what they leave for this one. This process must
// not have used CUDA: a forked child cannot use a context that its parent made.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>

#include <sys/mman.h>

namespace custash::bandwidth {

// Memory that children write and this process reads; zero at first.
template <typename T>
class SharedArray {
  static_assert(std::is_trivially_destructible_v<T>);

 public:
  explicit SharedArray(std::size_t count) : count_(count) {
    data_ = mmap(
        nullptr, count * sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (data_ == MAP_FAILED)
      throw std::runtime_error(std::string("shared memory: ") + std::strerror(errno));
  }

  ~SharedArray() { munmap(data_, count_ * sizeof(T)); }

  SharedArray(const SharedArray&) = delete;
  SharedArray& operator=(const SharedArray&) = delete;

  std::span<T> all() const { return {static_cast<T*>(data_), count_}; }

 private:
  std::size_t count_;
  void* data_;
};

// One process of the crew, inside of it.
class Member {
 public:
  struct Shared;

  Member(Shared& shared, unsigned number) : shared_(&shared), number_(number) {}

  unsigned number() const { return number_; }

  // Returns in all of them when the last has called it; ends the process where another failed.
  void start_together();

 private:
  Shared* shared_;
  unsigned number_;
  unsigned round_ = 0;
};

// Runs `work` in `count` processes. Throws what the first that failed has said.
void run_crew(unsigned count, const std::function<void(Member&)>& work);

}  // namespace custash::bandwidth
