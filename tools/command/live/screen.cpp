// SPDX-License-Identifier: MIT
#include "tools/command/live/screen.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <utility>

#include <poll.h>

namespace custash::live {
namespace {

bool wants_colour() {
  const char* const no = std::getenv("NO_COLOR");
  return no == nullptr || *no == '\0';
}

}  // namespace

Screen::Screen(const TopOptions& options) : options_(options) {
  how_.colour = wants_colour();
  how_.unicode = has_unicode();
  how_.keys = terminal_.fd() >= 0;
  how_.sort = column_of(options.sort.empty() ? kDefaultSort : options.sort);
}

void Screen::run() {
  const auto delay =
      std::chrono::milliseconds(static_cast<long>(std::lround(options_.delay * 1000)));
  now_ = looker_.poll(kPatience);
  for (;;) {
    const Next next = wait(Clock::now() + delay);
    if (next == Next::End) return;
    before_ = std::move(now_);
    now_ = looker_.poll(kPatience);
  }
}

bool Screen::draw() {
  const Terminal::Size size = Terminal::size();
  how_.width = size.width;
  how_.height = size.height;
  const std::vector<RowName> names = names_of(before_, now_, how_);
  const bool is_there =
      how_.chosen && std::find(names.begin(), names.end(), *how_.chosen) != names.end();
  if (!is_there) how_.chosen.reset();
  return Terminal::show(view_of(before_, now_, how_));
}

Screen::Next Screen::wait(Clock::time_point until) {
  for (;;) {
    if (!draw()) return Next::End;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
    if (left.count() <= 0) return Next::Look;
    std::array<pollfd, 3> items{pollfd{signals_.fd(), POLLIN, 0},
                                pollfd{terminal_.fd(), POLLIN, 0},
                                pollfd{action_.fd(), POLLIN, 0}};
    if (poll(items.data(), items.size(), static_cast<int>(left.count())) < 0) continue;
    if (items[0].revents != 0 && heed_signals() == Next::End) return Next::End;
    if (items[2].revents != 0) {
      const bool ended = action_.collect();
      if (question_.empty()) how_.message = action_.result();
      if (ended) return Next::Look;
    }
    if (items[1].revents == 0) continue;
    for (const Press& each : terminal_.read_keys()) {
      const Next next = press(each);
      if (next != Next::Wait) return next;
    }
  }
}

Screen::Next Screen::heed_signals() {
  for (int signal = signals_.take(); signal != 0; signal = signals_.take()) {
    if (ends(signal)) return Next::End;
    if (signal == SIGTSTP) {
      terminal_.leave();
      Signals::stop_here();
    }
    // The shell may have changed the terminal meanwhile.
    if (signal == SIGTSTP || signal == SIGCONT) terminal_.enter();
  }
  return Next::Wait;
}

Screen::Next Screen::press(const Press& press) {
  if (press.key == Key::End) return Next::End;
  if (!question_.empty()) {
    answer(press.character == 'y' || press.character == 'Y');
    return Next::Wait;
  }
  if (press.key == Key::Up) choose(-1);
  if (press.key == Key::Down) choose(1);
  if (press.key == Key::Escape) how_.help = false;
  switch (press.character) {
    case 'q':
    case 'Q':
      return Next::End;
    case ' ':
      return Next::Look;
    case 'k':
      choose(-1);
      break;
    case 'j':
      choose(1);
      break;
    case 's':
      sort_by(1);
      break;
    case 'S':
      sort_by(-1);
      break;
    case 'r':
      how_.reversed = !how_.reversed;
      break;
    case 'h':
    case '?':
      how_.help = !how_.help;
      break;
    case 't':
      ask("trim");
      break;
    case 'w':
      ask("snapshot");
      break;
    default:
      break;
  }
  return Next::Wait;
}

void Screen::answer(bool yes) {
  const std::vector<std::string> words = std::exchange(question_, {});
  how_.question = false;
  how_.message = "nothing done";
  if (!yes) return;
  action_.start(words, signals_.before());
  how_.message = action_.result();
}

void Screen::ask(const std::string& verb) {
  if (action_.running()) {
    how_.message = action_.result() + " is still at work";
    return;
  }
  const std::vector<RowName> names = names_of(before_, now_, how_);
  if (names.empty()) {
    how_.message = "there is no process to choose";
    return;
  }
  if (!how_.chosen) how_.chosen = names.front();
  const std::string pid = std::to_string(how_.chosen->pid);
  const auto program = now_.programs.find(how_.chosen->pid);
  const std::string who =
      "process " + pid +
      (program == now_.programs.end() ? "" : " (" + program->second.name + ")");
  question_ = {verb, pid};
  how_.question = true;
  how_.message = verb == "trim" ? "Return the free memory of " + who + "?"
                                : "Write custash-" + pid + ".html, a report of " + who + "?";
}

void Screen::choose(int step) {
  const std::vector<RowName> names = names_of(before_, now_, how_);
  if (names.empty()) return;
  const auto found =
      how_.chosen ? std::find(names.begin(), names.end(), *how_.chosen) : names.end();
  if (found == names.end()) {
    how_.chosen = step > 0 ? names.front() : names.back();
    return;
  }
  const auto last = static_cast<std::ptrdiff_t>(names.size()) - 1;
  const std::ptrdiff_t at = (found - names.begin()) + step;
  how_.chosen = names[static_cast<std::size_t>(std::clamp<std::ptrdiff_t>(at, 0, last))];
}

void Screen::sort_by(int step) {
  const auto all = columns();
  const auto count = static_cast<std::ptrdiff_t>(all.size());
  const std::ptrdiff_t at = (how_.sort - all.data() + step + count) % count;
  how_.sort = &all[static_cast<std::size_t>(at)];
  how_.reversed = false;
  how_.message = std::string("sorted by ") + how_.sort->title;
}

}  // namespace custash::live
