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
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

namespace custash::output {
namespace {

constexpr mode_t kPrivate = 0600;

std::size_t end_of_folder(const std::string& path) {
  return path.rfind('/') + 1;  // npos + 1 is 0
}

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

constexpr int kMostLinks = 40;  // as the kernel has it

// Another user could have made it to lead this process to a file that it must not write to.
bool is_foreign(const struct stat& link) {
  return link.st_uid != geteuid() && link.st_uid != 0;
}

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

std::string with_mark(const std::string& path, const std::string& mark) {
  const std::size_t name = path.rfind('/') + 1;
  const std::size_t dot = std::min(path.find('.', name + 1), path.size());
  return path.substr(0, dot) + mark + path.substr(dot);
}

bool link_to(const char* to, const char* path) {
  return ::symlink(to, path) == 0;
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

std::string name_beside(const std::string& path) {
  constexpr std::size_t kLongest = 200;  // of a name: file systems take 255 bytes
  unsigned long long random = 0;
  if (getrandom(&random, sizeof random, GRND_NONBLOCK) != sizeof random)
    random = static_cast<unsigned long long>(getpid());
  char ending[32];
  std::snprintf(ending, sizeof ending, ".%012llx.part", random & 0xffff'ffff'ffffULL);
  const std::size_t name = end_of_folder(path);
  return path.substr(0, name) + path.substr(name, kLongest) + ending;
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
