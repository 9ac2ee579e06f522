// SPDX-License-Identifier: MIT
// Screen: `custash top` on a terminal: what is shown, and what each key does.
#pragma once

#include "tools/command/live/action.hpp"
#include "tools/command/live/look.hpp"
#include "tools/command/live/signals.hpp"
#include "tools/command/live/subcommands.hpp"
#include "tools/command/live/terminal.hpp"
#include "tools/command/live/view.hpp"

#include <chrono>

namespace custash::live {

class Screen {
 public:
  explicit Screen(const TopOptions& options);

  // Until a key, a signal or the terminal's end.
  void run();

 private:
  enum class Next { Wait, Look, End };

  using Clock = std::chrono::steady_clock;

  [[nodiscard]] bool draw();
  // Until `until`, a wish to look again, or the end.
  Next wait(Clock::time_point until);
  Next heed_signals();
  Next press(const Press& press);
  void answer(bool yes);
  void ask(const std::string& verb);
  void choose(int step);
  void sort_by(int step);

  const TopOptions options_;
  const Signals signals_;
  Terminal terminal_;
  Looker looker_;
  Look before_;
  Look now_;
  ViewOptions how_;
  std::vector<std::string> question_;  // the command that a yes starts
  Action action_;
};

}  // namespace custash::live
