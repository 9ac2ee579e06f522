// SPDX-License-Identifier: MIT
#include "tools/progress.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include <sys/ioctl.h>
#include <unistd.h>

namespace custash {
namespace {

std::size_t terminal_width() {
  constexpr std::size_t kUsual = 80;
  winsize size{};
  const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col != 0;
  return known ? size.ws_col : kUsual;
}

}  // namespace

std::string progress_line(const std::string& what,
                          std::size_t done,
                          std::size_t all,
                          double seconds,
                          std::size_t width) {
  const double part =
      all == 0 ? 1 : std::min(1.0, static_cast<double>(done) / static_cast<double>(all));
  char numbers[64];
  int length = std::snprintf(numbers, sizeof numbers, " %3.0f %%", std::floor(part * 100));
  // Before that nothing can be said of the rest.
  constexpr double kEnoughSeconds = 1;
  constexpr double kEnoughDone = 0.02;
  if (seconds >= kEnoughSeconds && part >= kEnoughDone && part < 1)
    length = std::snprintf(numbers,
                           sizeof numbers,
                           " %3.0f %%, %.0f s left",
                           std::floor(part * 100),
                           std::ceil(seconds * (1 - part) / part));
  const std::size_t room = width - std::min(width, static_cast<std::size_t>(length));
  constexpr std::string_view kCut = "...";
  std::string line = what;
  if (line.size() > room)
    line = room <= kCut.size()
               ? ""
               : std::string(kCut) + what.substr(what.size() - room + kCut.size());
  return (line + numbers).substr(0, width);
}

Progress::Progress() : terminal_(isatty(STDERR_FILENO) != 0) {
}

void Progress::show(const std::string& what, std::size_t done, std::size_t all) {
  if (!terminal_) return;
  const std::size_t percent = all == 0 ? 100 : done * 100 / all;
  if (shown_ && what == what_ && percent == percent_) return;
  const Clock::time_point now = Clock::now();
  if (!shown_ || percent < percent_) began_ = now;
  const double seconds = std::chrono::duration<double>(now - began_).count();
  // The last column stays free: some terminals go to the next line after it.
  const std::string line = progress_line(what, done, all, seconds, terminal_width() - 1);
  std::fprintf(stderr, "\r%s\033[K", line.c_str());
  shown_ = true;
  what_ = what;
  percent_ = percent;
}

void Progress::clear() {
  if (shown_) std::fputs("\r\033[K", stderr);
  shown_ = false;
}

}  // namespace custash
