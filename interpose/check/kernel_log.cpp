// SPDX-License-Identifier: MIT
#include "interpose/check/kernel_log.hpp"

#include "interpose/process/live_page.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <thread>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace custash::kernel_log {
namespace {

const char* place = nullptr;
int file = -1;

struct stat opened {};  // a program may close all files, and open its own under this number

// Not those of another container, whose processes may have our number.
bool sees_our_number() {
  constexpr std::uint64_t kFirstSpace = 0xEFFFFFFC;  // the kernel's PROC_PID_INIT_INO

  return live::pid_namespace() == kFirstSpace;
}

bool is_still_ours() {
  struct stat now {};

  return file >= 0 && fstat(file, &now) == 0 && now.st_dev == opened.st_dev &&
         now.st_ino == opened.st_ino;
}

// What follows `before`, up to the first of `ends`. Empty where it is not there.
std::string_view between(std::string_view text,
                         std::string_view before,
                         std::string_view ends) {
  const std::size_t at = text.find(before);
  if (at == std::string_view::npos) return {};
  text.remove_prefix(at + before.size());
  return text.substr(0, text.find_first_of(ends));
}

std::optional<std::uint64_t> number(std::string_view text, int base) {
  std::uint64_t out = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, out, base);
  return text.empty() || parsed.ec != std::errc{} || parsed.ptr != end ? std::nullopt
                                                                       : std::optional(out);
}

const char* access_of(std::string_view line) {
  const std::string_view type = between(line, "ACCESS_TYPE_", " \n");
  if (type.ends_with("WRITE")) return "writes";
  return type.ends_with("READ") ? "reads" : "uses";
}

}  // namespace

// "… NVRM: Xid (PCI:0000:00:06): 31, pid=446, name=app, channel 0x0000000a, intr 00000000. MMU
// Fault: ENGINE GRAPHICS … faulted @ 0x3_02900000. Fault is of type FAULT_PDE
// ACCESS_TYPE_VIRT_WRITE"
std::optional<PageFault> read(std::string_view line, long process) {
  if (line.find("NVRM: Xid ") == std::string_view::npos ||
      line.find("): 31, ") == std::string_view::npos)
    return std::nullopt;
  if (number(between(line, "pid=", ","), 10) != static_cast<std::uint64_t>(process))
    return std::nullopt;
  // Two halves, the lower one with all its digits.
  constexpr std::size_t kDigits = 8;
  const std::string_view both = between(line, "faulted @ 0x", ". ");
  const std::size_t middle = both.find('_');
  if (middle == std::string_view::npos || both.size() != middle + 1 + kDigits)
    return std::nullopt;
  const auto upper = number(both.substr(0, middle), 16);
  const auto lower = number(both.substr(middle + 1), 16);
  if (!upper || !lower) return std::nullopt;
  const Address address = *upper << 32U | *lower;
  return PageFault{address - address % kPage, access_of(line)};
}

void begin(const char* path) noexcept {
  end();
  place = path;
  if (!sees_our_number()) return;
  file = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) return;
  (void)lseek(file, 0, SEEK_END);
  if (fstat(file, &opened) != 0) end();
}

void reset_after_fork() noexcept {
  if (place != nullptr) begin(place);
}

std::optional<PageFault> fault() noexcept {
  constexpr int kTries = 10;
  std::optional<PageFault> found;
  try {
    for (int i = 0; i < kTries && !found && is_still_ours(); ++i) {
      if (i != 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
      char lines[8192];  // EPIPE: the kernel has dropped the next ones
      ssize_t got = 0;
      while ((got = ::read(file, lines, sizeof lines)) > 0 || (got < 0 && errno == EPIPE)) {
        if (got < 0) continue;
        std::string_view text(lines, static_cast<std::size_t>(got));
        while (!text.empty()) {
          const std::string_view one = text.substr(0, text.find('\n'));
          if (auto fault = read(one, getpid())) found = std::move(fault);
          text.remove_prefix(std::min(text.size(), one.size() + 1));
        }
      }
    }
  } catch (...) {  // out of host memory
  }
  return found;
}

void end() noexcept {
  if (is_still_ours()) (void)close(file);
  file = -1;
}

}  // namespace custash::kernel_log
