// SPDX-License-Identifier: MIT
#include "interpose/process/output_file.hpp"

#include "allocator/base/thread.hpp"
#include "interpose/process/blocked_signals.hpp"

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

namespace custash::output {
namespace {

constexpr mode_t kPrivate = 0600;

std::size_t end_of_folder(const std::string& path) {
  return path.rfind('/') + 1;  // npos + 1 is 0
}

constexpr int kMostLinks = 40;  // as the kernel has it

enum class Link { None, Followed, Foreign, OfKernel };  // OfKernel: /proc/self/fd/1

// Replaces `path` by what the link at its end names. The link is held open meanwhile, so that
// it cannot be another one than its owner was asked for.
Link follow_link(std::string* path) {
  const int link = ::open(path->c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC);
  if (link < 0) return Link::None;

  struct stat info {};

  struct statfs where {};

  char target[PATH_MAX];
  const bool is_link = fstat(link, &info) == 0 && S_ISLNK(info.st_mode);
  const bool known = is_link && fstatfs(link, &where) == 0;
  const ssize_t size = known ? ::readlinkat(link, "", target, sizeof target) : 0;
  ::close(link);
  if (size <= 0) return Link::None;
  if (where.f_type == PROC_SUPER_MAGIC) return Link::OfKernel;
  if (is_foreign(info)) return Link::Foreign;
  const std::string to(target, static_cast<std::size_t>(size));
  *path = to.front() == '/' ? to : path->substr(0, end_of_folder(*path)) + to;
  return Link::Followed;
}

// The numbers of closed standard streams are not ours: the program writes to them.
int above_standard(int file) {
  if (file < 0 || file > STDERR_FILENO) return file;
  const int higher = fcntl(file, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  const int error = errno;
  ::close(file);
  errno = error;
  return higher;
}

bool had_stderr = true;

// Its number may become a file of the program's.
__attribute__((constructor)) void look_for_stderr() {
  had_stderr = fcntl(STDERR_FILENO, F_GETFD) >= 0;
}

}  // namespace

bool is_foreign(const struct stat& link) {
  return link.st_uid != geteuid() && link.st_uid != 0;
}

int create(const char* path) {
  return above_standard(
      ::open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kPrivate));
}

int open_shared(const char* path) {
  struct stat info {};

  const int file = above_standard(
      ::open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, kPrivate));
  if (file < 0 || (fstat(file, &info) == 0 && S_ISREG(info.st_mode) && info.st_nlink == 1 &&
                   info.st_uid == geteuid() && (info.st_mode & 077U) == 0))
    return file;
  ::close(file);
  return -1;
}

int open_to_append(const std::string& path) {
  constexpr int kHow = O_WRONLY | O_APPEND | O_CREAT | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
  std::string at = path;
  for (int i = 0; i < kMostLinks; ++i) {
    const int file = above_standard(::open(at.c_str(), kHow | O_NOFOLLOW, kPrivate));
    if (file >= 0 || errno != ELOOP) return file;
    const Link link = follow_link(&at);
    if (link == Link::OfKernel) return above_standard(::open(at.c_str(), kHow, kPrivate));
    if (link == Link::Foreign) errno = EACCES;
    if (link != Link::Followed) return -1;
  }
  errno = ELOOP;
  return -1;
}

int moved_up(int file) {
  constexpr int kHigh = 512;
  const int high = fcntl(file, F_DUPFD_CLOEXEC, kHigh);
  if (high < 0) return file;
  ::close(file);
  return high;
}

bool write_all(int file, std::string_view text) {
  const CancellationOff off;
  const BlockedSignals blocked(BlockedSignals::of_writes());
  while (!text.empty()) {
    const ssize_t wrote = ::write(file, text.data(), text.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote == 0) errno = ENOSPC;
    if (wrote <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(wrote));
  }
  return true;
}

void write_to_stderr(std::string_view text) {
  if (had_stderr) (void)write_all(STDERR_FILENO, text);
}

int reserve(int file, std::size_t begin, std::size_t size) {
  const BlockedSignals blocked(BlockedSignals::of_writes());
  return posix_fallocate(file, static_cast<off_t>(begin), static_cast<off_t>(size));
}

std::string resolved(const std::string& path) {
  std::string at = path;
  Link link = Link::Followed;
  for (int i = 0; i < kMostLinks && link == Link::Followed; ++i)
    link = follow_link(&at);
  if (link == Link::Foreign) return at;
  const std::unique_ptr<char, void (*)(void*)> whole(::realpath(at.c_str(), nullptr),
                                                     std::free);
  return whole ? whole.get() : at;
}

}  // namespace custash::output
