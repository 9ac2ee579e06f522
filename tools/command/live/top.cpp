// SPDX-License-Identifier: MIT
#include "tools/command/live/top.hpp"

#include "tools/command/live/report.hpp"
#include "tools/command/run/folder.hpp"

#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>

#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

namespace custash::live {
namespace {

constexpr std::chrono::milliseconds kPatience{300};

volatile std::sig_atomic_t interrupted = 0;

void on_interrupt(int) {
  interrupted = 1;
}

// Keys come without Return, and are not shown; put back at the end.
class Keys {
 public:
  Keys() {
    if (tcgetattr(STDIN_FILENO, &before_) != 0) return;
    termios raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    changed_ = tcsetattr(STDIN_FILENO, TCSANOW, &raw) == 0;
  }

  ~Keys() {
    if (changed_) tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }

  Keys(const Keys&) = delete;
  Keys& operator=(const Keys&) = delete;

  // Waits so long; true where the program is to end.
  [[nodiscard]] bool pressed_quit(double seconds) const {
    pollfd input{changed_ ? STDIN_FILENO : -1, POLLIN, 0};
    const int ready = poll(&input, 1, static_cast<int>(std::lround(seconds * 1000)));
    char key = 0;
    if (ready > 0 && read(STDIN_FILENO, &key, 1) != 1) return true;
    return interrupted != 0 || key == 'q' || key == 'Q' || key == 3;
  }

 private:
  termios before_{};
  bool changed_ = false;
};

Look look_at(Watch& watch) {
  Look look;
  look.seen = watch.look(kPatience);
  look.at = monotonic_now();
  return look;
}

bool show(const TopOptions& options, const Look& before, const Look& now, bool terminal) {
  winsize size{};
  if (terminal) ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
  std::string text =
      options.json ? json_of(before, now) : table_of(before, now, size.ws_col, size.ws_row);
  if (terminal && !options.json) text = "\033[H\033[J" + text;  // home, and clear what is below
  return std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0;
}

}  // namespace

int run_top(const TopOptions& options) {
  run::remove_stale_folders();

  struct sigaction action {};

  action.sa_handler = on_interrupt;  // without SA_RESTART: the wait ends
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  Watch watch;
  Look before = look_at(watch);
  // Rates need two looks; where nobody is there a second one tells nothing more.
  if (options.once) {
    pollfd none{-1, 0, 0};
    if (!before.seen.empty())
      poll(&none, 1, static_cast<int>(std::lround(options.delay * 1000)));
    return show(options, before, look_at(watch), false) ? 0 : 1;
  }
  const bool terminal = isatty(STDOUT_FILENO) != 0;
  const Keys keys;
  Look now = before;
  while (show(options, before, now, terminal)) {
    if (keys.pressed_quit(options.delay)) return 0;
    before = std::move(now);
    now = look_at(watch);
  }
  return 0;  // nobody reads any more
}

}  // namespace custash::live
