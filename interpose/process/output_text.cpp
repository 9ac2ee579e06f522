// SPDX-License-Identifier: MIT
#include "interpose/process/output_text.hpp"

#include "interpose/process/blocked_signals.hpp"
#include "interpose/process/output_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

namespace custash::output {
namespace {

// The first bytes of a regular file; it cannot have become a link or a fifo meanwhile.
bool read_beginning(const std::string& path, std::string* out) {
  constexpr std::size_t kEnough = std::size_t{64} << 10U;  // for one that has to be unpacked
  const int file = ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) return false;
  out->resize(kEnough);
  const ssize_t size = ::read(file, out->data(), out->size());
  ::close(file);
  out->resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  return size >= 0;
}

std::string failure() {
  return std::strerror(errno);
}

}  // namespace

std::string with_mark(const std::string& path, const std::string& mark) {
  const std::size_t name = path.rfind('/') + 1;
  const std::size_t dot = std::min(path.find('.', name + 1), path.size());
  return path.substr(0, dot) + mark + path.substr(dot);
}

bool link_to(const char* to, const char* path) {
  return ::symlink(to, path) == 0;
}

std::string name_beside(const std::string& path) {
  constexpr std::size_t kLongest = 200;  // of a name: file systems take 255 bytes
  unsigned long long random = 0;
  if (getrandom(&random, sizeof random, GRND_NONBLOCK) != sizeof random)
    random = static_cast<unsigned long long>(getpid());
  char ending[32];
  std::snprintf(ending, sizeof ending, ".%012llx.part", random & 0xffff'ffff'ffffULL);
  const std::size_t name = path.rfind('/') + 1;
  return path.substr(0, name) + path.substr(name, kLongest) + ending;
}

std::string objection(const std::string& path,
                      Kind kind,
                      Replace replace,
                      Recognise recognise) {
  struct stat info {};

  if (lstat(path.c_str(), &info) != 0) return errno == ENOENT ? "" : failure();
  if (S_ISDIR(info.st_mode)) return std::strerror(EISDIR);
  if (S_ISLNK(info.st_mode))
    return is_foreign(info) ? "is a symbolic link of another user" : "is a symbolic link";
  if (!S_ISREG(info.st_mode)) return "is not a regular file";
  if (replace == Replace::Any || info.st_size == 0) return "";
  std::string beginning;
  if (!read_beginning(path, &beginning)) return failure();
  if (recognise(beginning) == kind) return "";
  return std::string("exists and is not ") + name_of(kind);
}

bool move_to_free(const std::string& from, const std::string& to) {
  if (::link(from.c_str(), to.c_str()) == 0) {
    (void)::unlink(from.c_str());
    return true;
  }
  if (errno == EEXIST) return false;
  // Some file systems have no links.
  return ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0;
}

bool move(const std::string& from,
          const std::string& to,
          Kind kind,
          Replace replace,
          std::string* why,
          Recognise recognise) {
  if (move_to_free(from, to)) return true;
  if (errno != EEXIST) {
    *why = failure();
    return false;
  }
  *why = objection(to, kind, replace, recognise);
  if (!why->empty()) return false;
  // Another file may have come to that name since. It is looked at once more where it cannot be
  // lost; what is not ours gets its name again.
  constexpr int kTries = 100;
  const auto exchange = [&] {
    return ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0;
  };
  for (int i = 0; i < kTries && exchange(); ++i) {
    const std::string now = objection(from, kind, replace, recognise);
    if (!now.empty()) *why = now;
    if (now.empty() && i % 2 == 0) ::unlink(from.c_str());
    if (now.empty()) return i % 2 == 0;
  }
  if (!why->empty()) return false;
  if ((errno == EINVAL || errno == ENOENT) && ::rename(from.c_str(), to.c_str()) == 0)
    return true;  // some file systems exchange nothing
  *why = failure();
  return false;
}

std::string write_beside(const std::string& path,
                         std::string_view text,
                         std::string* why,
                         Readers readers) {
  constexpr mode_t kForAll = 0644;
  std::string beside = name_beside(path);
  const int file = create(beside.c_str());
  bool ok = file >= 0 && (readers == Readers::User || fchmod(file, kForAll) == 0) &&
            write_all(file, text);
  if (!ok) *why = failure();
  if (file < 0) return "";
  if (::close(file) != 0 && ok) {
    *why = failure();
    ok = false;
  }
  if (ok) return beside;
  ::unlink(beside.c_str());
  return "";
}

bool write_beside_others(std::string* path,
                         std::string_view text,
                         pid_t process,
                         std::string* why) {
  constexpr unsigned kMost = 1000;  // programs that one process runs by exec
  const std::string wanted = *path;
  const std::string beside = write_beside(wanted, text, why);
  for (unsigned n = 0; !beside.empty() && !move_to_free(beside, *path); ++n) {
    if (errno != EEXIST || n == kMost) {
      *why = failure();
      ::unlink(beside.c_str());
      return false;
    }
    *path = with_mark(wanted, "." + std::to_string(process));
    if (n > 0) *path = with_mark(*path, "." + std::to_string(n));
  }
  return !beside.empty();
}

bool write(const std::string& path,
           std::string_view text,
           Kind kind,
           Replace replace,
           std::string* why,
           Recognise recognise) {
  *why = objection(path, kind, replace, recognise);
  if (!why->empty()) return false;
  const BlockedSignals blocked(
      BlockedSignals::all());  // an interrupt would leave the file beside its place
  const std::string beside = write_beside(path, text, why);
  if (beside.empty()) return false;
  if (move(beside, path, kind, replace, why, recognise)) return true;
  if (objection(beside, kind, replace, recognise).empty()) ::unlink(beside.c_str());
  return false;
}

}  // namespace custash::output
