// SPDX-License-Identifier: MIT
// Record: writes a line for each allocation and free of the hooks (option `record`,
// docs/trace-format.md). One recorder for each process, behind one lock of its own, under which
// nothing else is locked or called. It is in static storage and never destroyed. Failed calls
// are not recorded.
#pragma once

#include "interpose/observe/observe.hpp"

#include <cstddef>
#include <string>
#include <string_view>

namespace custash::record {

using observe::MemoryKind;
using observe::Stream;

// Records from now until exit, or in a child until the fork. False, with the reason, when the
// file cannot be made. Once the file cannot grow, `say` is called once.
bool start(const std::string& path, void (*say)(const std::string& line), std::string* why);

}  // namespace custash::record

// A text file written through a shared mapping. Nothing is lost however the process ends,
// because its writes are in the page cache. Until close() the text is followed by zeros. The
// owner's lock guards it.
namespace custash {

class RecordFile {
 public:
  // Makes PATH, or PATH.PID, PATH.PID.1 and so on where PATH exists; never opens an existing
  // file. While it is open the process holds a lock (fcntl) on it. False, with the reason, when
  // no file can be made or PATH is no regular file.
  bool open(const std::string& path, std::string* why);

  // False when there is no room, or when neither the descriptor nor the name means this file
  // any more: then nothing is written.
  bool append(std::string_view text);

  // The error of append(); 0 where it succeeded.
  [[nodiscard]] int error() const { return error_; }

  // Cuts the zeros off.
  void close();

 private:
  [[nodiscard]] bool is_ours(int file) const;
  // Opens the file again if the program has closed it. False if its name means another file.
  bool have_file();
  void lock() const;
  bool grow();

  std::string name_;
  int file_ = -1;
  int error_ = 0;
  unsigned long long device_ = 0;  // of the opened file: the program may close any descriptor
  unsigned long long inode_ = 0;
  char* window_ = nullptr;  // the stretch that is mapped
  std::size_t begin_ = 0;   // where it begins in the file
  std::size_t used_ = 0;    // of the file
};

}  // namespace custash
