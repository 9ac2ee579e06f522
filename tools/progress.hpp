// SPDX-License-Identifier: MIT
// Progress: how far a long command has come and how long it may take still, in one line on
// standard error that is written over; nothing where that is no terminal. One thread.
#pragma once

#include <chrono>
#include <string>

namespace custash {

// The line, at most `width` characters of it: of `what` the end stays, which tells paths apart.
// `seconds` have passed since done was 0.
std::string progress_line(const std::string& what,
                          std::size_t done,
                          std::size_t all,
                          double seconds,
                          std::size_t width);

class Progress {
 public:
  Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  ~Progress() { clear(); }

  void show(const std::string& what, std::size_t done, std::size_t all);
  void clear();

 private:
  using Clock = std::chrono::steady_clock;

  const bool terminal_;
  bool shown_ = false;
  std::string what_;
  std::size_t percent_ = 0;
  Clock::time_point began_;
};

}  // namespace custash
