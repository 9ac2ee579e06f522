// SPDX-License-Identifier: MIT
#include "tools/command/live/terminal.hpp"

#include "interpose/process/output_file.hpp"

#include <array>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include <sys/ioctl.h>
#include <unistd.h>

namespace custash::live {
namespace {

// The alternate screen, no cursor, no wrapping of long lines; and back.
constexpr std::string_view kEnter = "\033[?1049h\033[?25l\033[?7l\033[H\033[2J";
constexpr std::string_view kLeave = "\033[0m\033[?7h\033[?25h\033[?1049l";

termios before{};
volatile std::sig_atomic_t must_restore = 0;

bool write_out(std::string_view text) {
  return output::write_all(STDOUT_FILENO, text);
}

// A fault of this program. The signal then comes again, with its usual effect.
void on_fault(int signal) {
  if (must_restore != 0) {
    must_restore = 0;
    (void)!write(STDOUT_FILENO, kLeave.data(), kLeave.size());
    tcsetattr(STDIN_FILENO, TCSANOW, &before);
  }
  raise(signal);
}

void restore_on_faults() {
  struct sigaction action {};

  action.sa_handler = on_fault;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  for (const int each : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT})
    sigaction(each, &action, nullptr);
}

bool names_unicode(const char* locale) {
  const std::string_view text(locale);
  for (const char* const name : {"UTF-8", "utf-8", "UTF8", "utf8"})
    if (text.find(name) != std::string_view::npos) return true;
  return false;
}

// The length of the escape sequence that `bytes` begins with; 0: it is cut off.
std::size_t sequence_length(std::string_view bytes) {
  if (bytes.size() < 2) return 0;
  if (bytes[1] == 'O') return bytes.size() < 3 ? 0 : 3;
  if (bytes[1] != '[') return 1;  // the key Escape, and another
  for (std::size_t i = 2; i < bytes.size(); ++i)
    if (bytes[i] >= '@' && bytes[i] <= '~') return i + 1;
  return 0;
}

Key key_of(std::string_view sequence) {
  if (sequence.size() == 1) return Key::Escape;
  if (sequence.size() != 3) return Key::None;
  return sequence[2] == 'A' ? Key::Up : sequence[2] == 'B' ? Key::Down : Key::None;
}

}  // namespace

std::vector<Press> take_keys(std::string* bytes) {
  constexpr std::size_t kLongest = 32;  // of a sequence
  std::vector<Press> keys;
  while (!bytes->empty()) {
    if ((*bytes)[0] != '\033') {
      keys.push_back({Key::Character, (*bytes)[0]});
      bytes->erase(0, 1);
      continue;
    }
    std::size_t length = sequence_length(*bytes);
    if (length == 0 && bytes->size() > kLongest) length = 1;
    if (length == 0) break;
    keys.push_back({key_of(std::string_view(*bytes).substr(0, length)), 0});
    bytes->erase(0, length);
  }
  return keys;
}

bool has_unicode() {
  for (const char* const name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* const value = std::getenv(name);
    if (value != nullptr && *value != '\0') return names_unicode(value);
  }
  return false;
}

bool Terminal::there() {
  const char* const kind = std::getenv("TERM");
  return isatty(STDOUT_FILENO) != 0 && kind != nullptr && *kind != '\0' &&
         std::strcmp(kind, "dumb") != 0;
}

Terminal::Terminal() : has_keys_(tcgetattr(STDIN_FILENO, &before) == 0) {
  restore_on_faults();
  enter();
}

Terminal::~Terminal() {
  leave();
}

void Terminal::enter() {
  if (has_keys_) {
    termios raw = before;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    raw.c_cc[VMIN] = 0;
    raw.c_cc[VTIME] = 0;
    tcsetattr(STDIN_FILENO, TCSANOW, &raw);
  }
  must_restore = 1;
  entered_ = write_out(kEnter);
}

void Terminal::leave() {
  if (must_restore == 0) return;
  must_restore = 0;
  if (entered_) (void)write_out(kLeave);
  if (has_keys_) tcsetattr(STDIN_FILENO, TCSADRAIN, &before);
}

Terminal::Size Terminal::size() {
  winsize size{};
  ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
  constexpr Size kUsual{80, 24};
  return size.ws_col == 0 || size.ws_row == 0 ? kUsual : Size{size.ws_col, size.ws_row};
}

bool Terminal::show(const std::vector<std::string>& lines) {
  std::string text = "\033[H";
  const char* separator = "";
  for (const std::string& line : lines) {
    text += separator + ("\033[K" + line);  // behind a full line it would take the last letter
    separator = "\r\n";
  }
  return write_out(text + "\033[J");
}

std::vector<Press> Terminal::read_keys() {
  std::array<char, 256> bytes{};
  const ssize_t got = read(STDIN_FILENO, bytes.data(), bytes.size());
  if (got <= 0) return {{Key::End, 0}};
  pressed_.append(bytes.data(), static_cast<std::size_t>(got));
  return take_keys(&pressed_);
}

}  // namespace custash::live
