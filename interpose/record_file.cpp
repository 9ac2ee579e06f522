// SPDX-License-Identifier: MIT
#include "interpose/record_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace custash {
namespace {

constexpr std::size_t kWindow = std::size_t{1} << 20;

int create(const std::string& path) {
  constexpr mode_t kMode = 0644;
  return ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, kMode);
}

// PATH, or a name beside it that is free.
int create_beside(const std::string& path) {
  int file = create(path);
  const std::string own = path + "." + std::to_string(getpid());
  if (file < 0 && errno == EEXIST) file = create(own);
  // One process may run several programs, one after the other, by exec.
  constexpr int kMostPrograms = 1000;
  for (int n = 1; file < 0 && errno == EEXIST && n < kMostPrograms; ++n)
    file = create(own + "." + std::to_string(n));
  return file;
}

// Out of the way of programs that count on small numbers.
int moved_up(int file) {
  constexpr int kHigh = 512;
  const int high = fcntl(file, F_DUPFD_CLOEXEC, kHigh);
  if (high < 0) return file;
  ::close(file);
  return high;
}

}  // namespace

bool RecordFile::open(const std::string& path, std::string* why) {
  file_ = create_beside(path);
  if (file_ >= 0) file_ = moved_up(file_);

  struct stat info {};

  if (file_ < 0 || fstat(file_, &info) != 0) {
    *why = std::strerror(errno);
    return false;
  }
  device_ = info.st_dev;
  inode_ = info.st_ino;

  struct flock lock {};

  lock.l_type = F_WRLCK;
  fcntl(file_, F_SETLK, &lock);  // where locks do not work nobody can ask for it either
  if (grow()) return true;
  *why = std::strerror(errno);
  return false;
}

bool RecordFile::still_ours() const {
  struct stat info {};

  return file_ >= 0 && fstat(file_, &info) == 0 && info.st_dev == device_ &&
         info.st_ino == inode_;
}

// Maps the stretch after this one. Its blocks are taken first: a write into a hole of a full
// disk would be a signal, not an error.
bool RecordFile::grow() {
  const std::size_t next = window_ == nullptr ? 0 : begin_ + kWindow;
  if (!still_ours()) return false;
  errno = posix_fallocate(file_, static_cast<off_t>(next), static_cast<off_t>(kWindow));
  if (errno != 0) return false;
  void* const mapped = mmap(
      nullptr, kWindow, PROT_READ | PROT_WRITE, MAP_SHARED, file_, static_cast<off_t>(next));
  if (mapped == MAP_FAILED) return false;
  if (window_ != nullptr) munmap(window_, kWindow);
  window_ = static_cast<char*>(mapped);
  begin_ = next;
  return true;
}

bool RecordFile::append(std::string_view text) {
  while (!text.empty()) {
    if (used_ == begin_ + kWindow && !grow()) return false;
    const std::size_t room = begin_ + kWindow - used_;
    const std::size_t part = std::min(room, text.size());
    std::memcpy(window_ + (used_ - begin_), text.data(), part);
    used_ += part;
    text.remove_prefix(part);
  }
  return true;
}

void RecordFile::close() {
  if (window_ != nullptr) munmap(window_, kWindow);
  window_ = nullptr;
  if (!still_ours()) return;
  // Where it cannot be cut, zeros stay, which readers of traces know.
  if (ftruncate(file_, static_cast<off_t>(used_)) != 0) used_ = 0;
  ::close(file_);
  file_ = -1;
}

}  // namespace custash
