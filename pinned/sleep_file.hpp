// SPDX-License-Identifier: MIT
// SleepFile: a private file without a name, for the contents of sleeping device memory. Its
// space is reserved before anything is written. It is there while a piece of it is taken. Used
// by one thread at a time (Sleep).
//
// The program may close any descriptor. So each use asks whether the descriptor is still the
// file's; without it, the file is read through a mapping.
#pragma once

#include "allocator/base/units.hpp"

#include <cstddef>
#include <string>
#include <utility>

#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

namespace custash {

// Copies memory of this process by a system call: an address that cannot be read is an error.
ssize_t process_read(void* from, void* to, std::size_t bytes);

// The system's calls, as far as tests make them fail; and who keeps descriptors.
struct FileCalls {
  int (*open)(const char*, int) = [](const char* path, int flags) {
    return ::open(path, flags, 0600);
  };
  ssize_t (*write)(int, const void*, std::size_t, off_t) = ::pwrite;
  ssize_t (*read)(int, void*, std::size_t, off_t) = ::pread;
  ssize_t (*read_memory)(void* from, void* to, std::size_t) = process_read;
  int (*reserve)(int, int, off_t, off_t) = ::fallocate;
  int (*flush)(int) = ::fdatasync;
  int (*keep)(int) = nullptr;   // gives the descriptor another number
  void (*drop)(int) = nullptr;  // it is closed next
};

class SleepFile {
 public:
  explicit SleepFile(std::string folder);

  ~SleepFile() { close(); }

  SleepFile(const SleepFile&) = delete;
  SleepFile& operator=(const SleepFile&) = delete;

  void set_calls(const FileCalls& calls) { calls_ = calls; }

  [[nodiscard]] const std::string& folder() const { return folder_; }

  // What the file system of the folder would give. 0 without one.
  [[nodiscard]] Bytes room() const;

  // Space for a piece, at offset `at`. False: `why` tells.
  bool take(Bytes bytes, Bytes* at, std::string* why);
  // The file ends with its last piece.
  void give(Bytes at, Bytes bytes);

  // Offsets are multiples of a page, and so is the address. Up to a page more is written or
  // read than asked for.
  bool write(Bytes at, const std::byte* from, Bytes bytes, std::string* why);
  bool read(Bytes at, std::byte* to, Bytes bytes, std::string* why);
  // All that was written has arrived.
  bool flush(std::string* why);

 private:
  bool open(std::string* why);
  void close();
  [[nodiscard]] bool ours() const;
  bool map();
  bool read_mapped(Bytes at, std::byte* to, Bytes bytes, std::string* why);
  template <typename Call>
  bool all(Bytes at, Bytes bytes, const char* what, std::string* why, Call call);
  template <typename Call, typename Memory>
  ssize_t own(Call call, Memory memory, Bytes bytes, off_t place) const;

  std::string folder_;
  FileCalls calls_;
  int fd_ = -1;
  bool direct_ = false;
  dev_t device_ = 0;  // with inode_: the file's identity
  ino_t inode_ = 0;
  Bytes end_ = 0;    // of the last piece
  Bytes taken_ = 0;  // by all pieces
  void* map_ = nullptr;
  Bytes mapped_ = 0;
};

}  // namespace custash
