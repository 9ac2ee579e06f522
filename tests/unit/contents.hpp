// SPDX-License-Identifier: MIT
// Blocks with bytes of their own: kernels that write and read them, on a simulator that keeps
// contents.
#pragma once

#include "allocator/sleep/sleep.hpp"
#include "tests/unit/bed.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <thread>

namespace custash {

inline sim::Options with_bytes(Bytes device_memory = 1_GiB) {
  sim::Options options;
  options.data = true;
  options.device_memory = device_memory;
  return options;
}

// Contents by their number, no two words of which are alike.
inline void fill(char* at, Bytes bytes, int number) {
  const auto word_at = [=](Bytes i) {
    return (i + 8) * 0x9e3779b97f4a7c15U ^ static_cast<std::uint64_t>(number);
  };
  auto* const words = reinterpret_cast<std::uint64_t*>(at);
  for (Bytes i = 0; i < bytes / 8; ++i)
    words[i] = word_at(8 * i);
  const std::uint64_t last = word_at(bytes / 8 * 8);
  std::memcpy(at + bytes / 8 * 8, &last, bytes % 8);
}

// A kernel that writes (or reads) the block byte by byte.
inline sim::Kernel writes(Address at, Bytes bytes, int number) {
  return {.accesses = {{at, bytes, true}},
          .body = [=] { fill(reinterpret_cast<char*>(at), bytes, number); }};
}

// One value throughout: sleep does not copy it.
inline sim::Kernel sets(Address at, Bytes bytes, int value) {
  return {.accesses = {{at, bytes, true}},
          .body = [=] { std::memset(reinterpret_cast<void*>(at), value, bytes); }};
}

inline sim::Kernel reads(Address at, Bytes bytes, std::string* out) {
  return {.accesses = {{at, bytes, false}},
          .body = [=] { out->assign(reinterpret_cast<const char*>(at), bytes); }};
}

// Not compared by Catch, which would print megabytes.
inline bool has_contents(const std::string& seen, Bytes bytes, int number) {
  std::string wanted(bytes, '\0');
  fill(wanted.data(), bytes, number);
  return seen == wanted;
}

inline Address written(Bed& bed, Bytes bytes, int number) {
  const Address at = bed.malloc(bytes);
  bed.launch(nullptr, writes(at, bytes, number));
  return at;
}

// What a kernel reads there now.
inline bool holds(Bed& bed, Address at, Bytes bytes, int number, CUstream stream = nullptr) {
  std::string seen;
  bed.launch(stream, reads(at, bytes, &seen));
  sim::run_all();
  return has_contents(seen, bytes, number);
}

inline bool is_all(const std::string& seen, Bytes bytes, int value) {
  return seen == std::string(bytes, static_cast<char>(value));
}

struct SleepBed : Bed {
  explicit SleepBed(Bytes device_memory = 1_GiB) : Bed(with_bytes(device_memory)) {}

  Sleep sleep{*allocator};
};

inline SleepAnswer fall_asleep(Sleep& sleep) {
  SleepAnswer answer = sleep.go({});
  INFO(answer.text);
  REQUIRE(answer.asleep);
  return answer;
}

template <typename Answer>
bool says(const Answer& answer, const std::string& words) {
  return answer.text.find(words) != std::string::npos;
}

// Another thread's launch, which comes to the gate at the driver's first call of that name and
// stays there for as long as that is closed.
class WorkMeanwhile {
 public:
  WorkMeanwhile(Bed& bed, const char* call) : bed_(bed), call_(call) {
    now_ = this;
    sim::set_entry_check([] {
      if (!now_->came_ && sim::count(now_->call_) != 0) now_->come();
    });
  }

  ~WorkMeanwhile() {
    sim::set_entry_check(nullptr);
    if (came_) other_.join();
  }

  WorkMeanwhile(const WorkMeanwhile&) = delete;
  WorkMeanwhile& operator=(const WorkMeanwhile&) = delete;

 private:
  void come() {
    came_ = true;
    other_ = std::thread([this] {
      cuCtxSetCurrent(bed_.sim.context());
      bed_.launch(nullptr);
    });
    while (!bed_.allocator->sleep_gate().somebody_came())
      std::this_thread::yield();
  }

  static inline WorkMeanwhile* now_ = nullptr;
  Bed& bed_;
  const char* call_;
  bool came_ = false;
  std::thread other_;
};

}  // namespace custash
