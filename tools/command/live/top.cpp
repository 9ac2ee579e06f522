// SPDX-License-Identifier: MIT
#include "tools/command/live/look.hpp"
#include "tools/command/live/screen.hpp"
#include "tools/command/live/signals.hpp"
#include "tools/command/live/subcommands.hpp"
#include "tools/command/live/terminal.hpp"
#include "tools/command/live/view.hpp"
#include "tools/command/run/folder.hpp"

#include <chrono>
#include <cmath>
#include <cstdio>

#include <poll.h>
#include <unistd.h>

namespace custash::live {
namespace {

bool print(const TopOptions& options, const Look& before, const Look& now) {
  std::string text;
  if (options.json) {
    text = json_of(before, now);
  } else {
    ViewOptions how;
    how.sort = column_of(options.sort.empty() ? kDefaultSort : options.sort);
    how.unicode = has_unicode();
    for (const std::string& line : view_of(before, now, how))
      text += line + "\n";
  }
  return std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0;
}

// False: a signal asks for the end.
bool wait(const Signals& signals, double seconds) {
  const auto until = std::chrono::steady_clock::now() +
                     std::chrono::milliseconds(static_cast<long>(std::lround(seconds * 1000)));
  for (;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    pollfd item{signals.fd(), POLLIN, 0};
    if (left.count() <= 0 || poll(&item, 1, static_cast<int>(left.count())) == 0) return true;
    for (int signal = signals.take(); signal != 0; signal = signals.take()) {
      if (ends(signal)) return false;
      if (signal == SIGTSTP) Signals::stop_here();
    }
  }
}

// Without a terminal: one table, or one line of JSON, after the other.
int print_for_ever(const TopOptions& options) {
  const Signals signals;
  Looker looker;
  Look before;
  Look now = looker.poll(kPatience);
  while (print(options, before, now)) {
    if (!wait(signals, options.delay)) return 0;
    before = std::move(now);
    now = looker.poll(kPatience);
  }
  return 0;  // nobody reads any more
}

int print_once(const TopOptions& options) {
  Looker looker;
  const Look before = looker.poll(kPatience);
  // Rates need two looks; without a terminal, a second one shows nothing more.
  if (!before.seen.empty())
    poll(nullptr, 0, static_cast<int>(std::lround(options.delay * 1000)));
  return print(options, before, looker.poll(kPatience)) ? 0 : 1;
}

}  // namespace

int run_top(const TopOptions& options) {
  run::remove_stale_folders();
  if (options.once) return print_once(options);
  if (options.json || !Terminal::there()) return print_for_ever(options);
  Screen(options).run();
  return 0;
}

}  // namespace custash::live
