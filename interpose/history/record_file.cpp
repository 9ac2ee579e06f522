// SPDX-License-Identifier: MIT
#include "interpose/history/record.hpp"
#include "interpose/process/output_file.hpp"
#include "interpose/process/output_kind.hpp"

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

// Makes PATH, or a free name beside it where PATH exists. Returns the name.
std::string create_free(const std::string& path, int* file) {
  *file = output::create(path.c_str());
  const std::string own = path + "." + std::to_string(getpid());
  std::string name = path;
  // One process may run several programs, one after the other, by exec.
  constexpr int kMostPrograms = 1000;
  for (int n = 0; *file < 0 && errno == EEXIST && n < kMostPrograms; ++n) {
    name = n == 0 ? own : own + "." + std::to_string(n);
    *file = output::create(name.c_str());
  }
  return name;
}

}  // namespace

bool RecordFile::open(const std::string& path, std::string* why) {
  struct stat info {};

  if (stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    *why = S_ISDIR(info.st_mode) ? std::strerror(EISDIR) : "is not a regular file";
    return false;
  }
  const std::string name = create_free(path, &file_);
  if (file_ >= 0) file_ = output::moved_up(file_);
  if (file_ < 0 || fstat(file_, &info) != 0) {
    *why = std::strerror(errno);
    return false;
  }
  device_ = info.st_dev;
  inode_ = info.st_ino;
  name_ = output::resolved(name);
  lock();
  if (grow() && append(output::kRecordingMark)) return true;
  *why = std::strerror(error_);
  close();
  ::unlink(name.c_str());
  return false;
}

void RecordFile::lock() const {
  struct flock lock {};

  lock.l_type = F_WRLCK;
  fcntl(file_, F_SETLK, &lock);  // if locks do not work, no process can take it either
}

bool RecordFile::is_ours(int file) const {
  struct stat info {};

  return file >= 0 && fstat(file, &info) == 0 && info.st_dev == device_ &&
         info.st_ino == inode_;
}

bool RecordFile::have_file() {
  if (is_ours(file_)) return true;
  const int file = ::open(name_.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (!is_ours(file)) {
    if (file >= 0) ::close(file);
    return false;
  }
  file_ = output::moved_up(file);
  lock();
  return true;
}

// Maps the next stretch. Its blocks on the disk are reserved first, because a write into a hole
// of a full disk would raise a signal.
bool RecordFile::grow() {
  const std::size_t next = window_ == nullptr ? 0 : begin_ + kWindow;
  error_ = have_file() ? output::reserve(file_, next, kWindow) : EBADF;
  if (error_ != 0) return false;
  void* const mapped = mmap(
      nullptr, kWindow, PROT_READ | PROT_WRITE, MAP_SHARED, file_, static_cast<off_t>(next));
  if (mapped == MAP_FAILED) {
    error_ = errno;
    return false;
  }
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
  if (!have_file()) return;
  // If it cannot be cut, zeros remain, and readers of traces skip them.
  if (ftruncate(file_, static_cast<off_t>(used_)) != 0) used_ = 0;
  ::close(file_);
  file_ = -1;
}

}  // namespace custash
