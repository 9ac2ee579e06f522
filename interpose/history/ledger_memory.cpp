// SPDX-License-Identifier: MIT
#include "interpose/history/ledger_memory.hpp"

#include "allocator/base/units.hpp"
#include "interpose/process/output_file.hpp"

#include <cerrno>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

namespace custash::ledger {
namespace {

constexpr std::size_t kPage = 65536;  // a multiple of every page size

// A file beyond the program's size limit would raise a signal.
bool is_allowed(std::uint64_t size) {
  rlimit limit{};
  return getrlimit(RLIMIT_FSIZE, &limit) == 0 &&
         (limit.rlim_cur == RLIM_INFINITY || size <= limit.rlim_cur);
}

bool allocate(int file, std::uint64_t offset, std::size_t bytes) {
  int error = EINTR;
  constexpr int kAttempts = 100;  // each signal that comes interrupts it
  for (int i = 0; i < kAttempts && error == EINTR; ++i)
    error = posix_fallocate(file, static_cast<off_t>(offset), static_cast<off_t>(bytes));
  return error == 0;
}

}  // namespace

bool Storage::share(const char* path) noexcept {
  if (std::strlen(path) >= sizeof path_) return false;
  const int file = output::create(path);
  if (file < 0) return false;

  struct stat info {};

  const bool known = fstat(file, &info) == 0;
  ::close(file);
  if (!known) return false;
  device_ = info.st_dev;
  inode_ = info.st_ino;
  std::strcpy(path_, path);
  return true;
}

// Opened for each use: a program may close every descriptor that it finds.
int Storage::open_again() const noexcept {
  const int file = ::open(path_, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

  struct stat info {};

  if (file >= 0 &&
      (fstat(file, &info) != 0 || info.st_dev != device_ || info.st_ino != inode_)) {
    ::close(file);
    return -1;
  }
  return file;
}

Storage::Region Storage::get_shared(std::size_t bytes) noexcept {
  const int file = is_allowed(end_ + bytes) ? open_again() : -1;
  if (file < 0) return {};
  void* at = MAP_FAILED;
  if (allocate(file, end_, bytes))
    at = mmap(
        nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, static_cast<off_t>(end_));
  ::close(file);
  if (at == MAP_FAILED) return {};
  const Region out{at, bytes, end_};
  end_ += bytes;
  return out;
}

Storage::Region Storage::get(std::size_t bytes) {
  bytes = align_up(bytes, kPage);
  if (shared()) {
    const Region out = get_shared(bytes);
    if (out.at != nullptr) return out;
    path_[0] = '\0';
    if (partial_ != nullptr) *partial_ = 1;
  }
  void* const at =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) throw std::bad_alloc();
  return {at, bytes, kPrivate};
}

void Storage::drop(const Region& region) noexcept {
  munmap(region.at, region.bytes);
  if (region.offset == kPrivate || !shared()) return;
  const int file = open_again();
  if (file < 0) return;
  (void)fallocate(file,
                  FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                  static_cast<off_t>(region.offset),
                  static_cast<off_t>(region.bytes));
  ::close(file);
}

}  // namespace custash::ledger
