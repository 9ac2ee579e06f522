// SPDX-License-Identifier: MIT
// Terminal: the alternate screen of a terminal and its keys, with the few sequences that every
// terminal in use knows. It needs no terminfo: containers often have none. The terminal is put
// back when it ends, also by a fault of this program. One at a time.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <termios.h>

namespace custash::live {

enum class Key { None, Up, Down, Escape, End, Character };

struct Press {
  Key key = Key::None;
  char character = 0;
};

// The keys in `bytes`, which are taken out. An escape sequence that is cut off stays.
std::vector<Press> take_keys(std::string* bytes);

class Terminal {
 public:
  // Whether standard output is a terminal that has a screen (TERM is not "dumb").
  static bool there();

  Terminal();
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  void enter();
  void leave();

  struct Size {
    std::size_t width, height;
  };

  [[nodiscard]] static Size size();

  // Replaces what is shown; false: the terminal is gone.
  [[nodiscard]] static bool show(const std::vector<std::string>& lines);

  // To wait for keys at; -1: standard input is no terminal.
  [[nodiscard]] int fd() const { return has_keys_ ? 0 : -1; }

  // The keys that were pressed; Key::End where the terminal is gone.
  std::vector<Press> read_keys();

 private:
  bool has_keys_ = false;
  bool entered_ = false;
  std::string pressed_;  // the beginning of a sequence
};

// The locale's encoding, by the environment.
bool has_unicode();

}  // namespace custash::live
