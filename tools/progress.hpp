// SPDX-License-Identifier: MIT
// Progress: how far a long command has come, in a line on standard error that is written over;
// nothing where that is no terminal. One thread.
#pragma once

#include <algorithm>
#include <cstdio>
#include <string>

#include <unistd.h>

namespace custash {

class Progress {
 public:
  Progress() = default;
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  ~Progress() { clear(); }

  void show(const std::string& what, std::size_t done, std::size_t all) {
    if (!terminal_) return;
    const std::size_t percent = all == 0 ? 100 : std::min<std::size_t>(100, done * 100 / all);
    if (what == what_ && percent == percent_) return;
    what_ = what;
    percent_ = percent;
    std::fprintf(stderr, "\r\033[K%s %3zu %%", what.c_str(), percent);
  }

  void clear() {
    if (terminal_) std::fputs("\r\033[K", stderr);
  }

 private:
  bool terminal_ = isatty(STDERR_FILENO) != 0;
  std::string what_;
  std::size_t percent_ = 0;
};

}  // namespace custash
