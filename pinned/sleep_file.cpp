// SPDX-License-Identifier: MIT
#include "pinned/sleep_file.hpp"

#include "allocator/base/words.hpp"

#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstring>

#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>

namespace custash {
namespace {

constexpr Bytes kAlign = 4_KiB;

std::string words_of(int code) {
  constexpr std::size_t kRoom = 128;
  char text[kRoom] = "";                         // NOLINT: the form that strerror_r takes
  return ::strerror_r(code, text, sizeof text);  // GNU's
}

bool same_file(const struct stat& one, const struct stat& two) {
  return one.st_dev == two.st_dev && one.st_ino == two.st_ino;
}

// If the file system cannot make an unnamed file: one that was not there, and its name goes
// at once. Another file that has taken the name meanwhile stays.
int make_and_unlink(const FileCalls& calls, const std::string& folder) {
  for (int i = 0; i < 16; ++i) {
    std::uint64_t number = 0;
    if (::getrandom(&number, sizeof number, 0) < 0) number = static_cast<std::uint64_t>(i);
    const std::string path =
        folder + "/.custash-sleep-" + std::to_string(::getpid()) + "-" + std::to_string(number);
    const int fd = calls.open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == EEXIST) continue;

    struct stat mine {};

    struct stat there {};

    if (fd >= 0 && ::fstat(fd, &mine) == 0 && ::lstat(path.c_str(), &there) == 0 &&
        same_file(mine, there))
      ::unlink(path.c_str());
    return fd;
  }
  return -1;
}

int make(const FileCalls& calls, const std::string& folder) {
  const int fd = calls.open(folder.c_str(), O_TMPFILE | O_RDWR | O_EXCL | O_CLOEXEC);
  const bool unknown = fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL);
  return unknown ? make_and_unlink(calls, folder) : fd;
}

// A write beyond the limit would end the program by a signal.
bool within_limit(Bytes end) {
  rlimit limit{};
  return ::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
         end <= limit.rlim_cur;
}

}  // namespace

ssize_t process_read(void* from, void* to, std::size_t bytes) {
  const iovec local{to, bytes};
  const iovec remote{from, bytes};
  return ::process_vm_readv(::getpid(), &local, 1, &remote, 1, 0);
}

Bytes SleepFile::room() const {
  struct statvfs seen {};

  if (folder_.empty() || ::statvfs(folder_.c_str(), &seen) != 0) return 0;
  return static_cast<Bytes>(seen.f_bavail) * seen.f_frsize;
}

SleepFile::SleepFile(std::string folder) : folder_(std::move(folder)) {
  if (folder_.empty() || folder_.front() == '/') return;
  // The program may go to another folder.
  char here[PATH_MAX];
  if (::getcwd(here, sizeof here) != nullptr) folder_ = std::string(here) + "/" + folder_;
}

bool SleepFile::open(std::string* why) {
  if (fd_ >= 0) return true;
  int fd = make(calls_, folder_);

  struct stat mine {};

  if (fd < 0 || ::fstat(fd, &mine) != 0) {
    *why = folder_ + ": " + words_of(errno);
    if (fd >= 0) ::close(fd);
    return false;
  }
  if (calls_.keep != nullptr) fd = calls_.keep(fd);
  fd_ = fd;
  device_ = mine.st_dev;
  inode_ = mine.st_ino;
  direct_ = ::fcntl(fd_, F_SETFL, O_DIRECT) == 0;
  return true;
}

bool SleepFile::ours() const {
  struct stat seen {};

  return fd_ >= 0 && ::fstat(fd_, &seen) == 0 && seen.st_dev == device_ &&
         seen.st_ino == inode_;
}

void SleepFile::close() {
  if (map_ != nullptr) ::munmap(map_, mapped_);
  map_ = nullptr;
  mapped_ = 0;
  if (fd_ >= 0) {
    if (calls_.drop != nullptr) calls_.drop(fd_);
    if (ours()) ::close(fd_);
  }
  fd_ = -1;
  end_ = 0;
  taken_ = 0;
}

bool SleepFile::take(Bytes bytes, Bytes* at, std::string* why) {
  if (!open(why)) return false;
  int code = 0;
  if (!ours())
    code = EBADF;
  else if (!within_limit(end_ + bytes))
    code = EFBIG;
  else
    while (calls_.reserve(fd_, 0, static_cast<off_t>(end_), static_cast<off_t>(bytes)) != 0 &&
           (code = errno) == EINTR)
      code = 0;
  if (code != 0) {
    *why = folder_ + ": " + std::to_string(bytes >> 20U) + " MiB more cannot be reserved (" +
           words_of(code) + "), has " + in_mib(room());
    if (taken_ == 0) close();
    return false;
  }
  *at = end_;
  end_ += bytes;
  taken_ += bytes;
  return true;
}

void SleepFile::give(Bytes at, Bytes bytes) {
  taken_ -= bytes;
  if (taken_ == 0) return close();
  if (ours())
    (void)::fallocate(fd_,
                      FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                      static_cast<off_t>(at),
                      static_cast<off_t>(bytes));
}

// `call(offset in the whole, bytes)` until all is done.
template <typename Call>
bool SleepFile::all(Bytes at, Bytes bytes, const char* what, std::string* why, Call call) {
  const Bytes whole = align_up(bytes, kAlign);
  for (Bytes done = 0; done < whole;) {
    const ssize_t now = call(done, whole - done, static_cast<off_t>(at + done));
    if (now > 0) {
      done += static_cast<Bytes>(now);
      continue;
    }
    const int code = now == 0 ? ENODATA : errno;
    if (code == EINTR) continue;
    // The device may want a larger alignment than ours.
    if (code == EINVAL && direct_) {
      const int flags = ::fcntl(fd_, F_GETFL);
      direct_ = false;
      if (flags >= 0 && ::fcntl(fd_, F_SETFL, flags & ~O_DIRECT) == 0) continue;
    }
    *why = folder_ + ": cannot " + what + ": " + words_of(code);
    return false;
  }
  return true;
}

// The program may have closed the descriptor since the last call.
template <typename Call, typename Memory>
ssize_t SleepFile::own(Call call, Memory memory, Bytes bytes, off_t place) const {
  if (ours()) return call(fd_, memory, bytes, place);
  errno = EBADF;
  return -1;
}

bool SleepFile::write(Bytes at, const std::byte* from, Bytes bytes, std::string* why) {
  if (!ours()) {
    *why = folder_ + ": the program has closed the file";
    return false;
  }
  if (!within_limit(at + align_up(bytes, kAlign))) {
    *why = folder_ + ": cannot write: " + words_of(EFBIG);
    return false;
  }
  return all(at, bytes, "write", why, [&](Bytes done, Bytes size, off_t place) {
    return own(calls_.write, from + done, size, place);
  });
}

bool SleepFile::read(Bytes at, std::byte* to, Bytes bytes, std::string* why) {
  if (!ours()) return read_mapped(at, to, bytes, why);
  return all(at, bytes, "read", why, [&](Bytes done, Bytes size, off_t place) {
    return own(calls_.read, to + done, size, place);
  });
}

// By a system call: a fault of the disk is an error then, and no signal.
bool SleepFile::read_mapped(Bytes at, std::byte* to, Bytes bytes, std::string* why) {
  if (map_ == nullptr || at + bytes > mapped_) {
    *why = folder_ + ": cannot read: the program has closed the file";
    return false;
  }
  return all(at, bytes, "read", why, [&](Bytes done, Bytes size, off_t place) {
    std::byte* const from = static_cast<std::byte*>(map_) + place;
    const ssize_t now = calls_.read_memory(from, to + done, size);
    if (now >= 0 || (errno != ENOSYS && errno != EPERM)) return now;
    // A container may forbid that call. Without it the contents would be lost.
    std::memcpy(to + done, from, size);
    return static_cast<ssize_t>(size);
  });
}

bool SleepFile::flush(std::string* why) {
  if (fd_ < 0) return true;
  int code = ours() ? 0 : EBADF;
  while (code == 0 && calls_.flush(fd_) != 0 && (code = errno) == EINTR)
    code = 0;
  if (code != 0) {
    *why = folder_ + ": cannot write: " + words_of(code);
    return false;
  }
  if (!map()) {
    *why = folder_ + ": cannot map the file: " + words_of(errno);
    return false;
  }
  if (!direct_) (void)::posix_fadvise(fd_, 0, 0, POSIX_FADV_DONTNEED);  // not in memory twice
  return true;
}

bool SleepFile::map() {
  if (mapped_ == end_) return true;
  if (map_ != nullptr) ::munmap(map_, mapped_);
  map_ = ::mmap(nullptr, end_, PROT_READ, MAP_SHARED | MAP_NORESERVE, fd_, 0);
  if (map_ == MAP_FAILED) map_ = nullptr;
  if (map_ != nullptr) (void)::madvise(map_, end_, MADV_DONTFORK);
  mapped_ = map_ == nullptr ? 0 : end_;
  return map_ != nullptr;
}

}  // namespace custash
