// SPDX-License-Identifier: MIT
// RecordFile: a text file that is written through a shared mapping, so that nothing is lost
// however the process ends: what it leaves is in the page cache. Until close() the file has
// zeros behind the text. The owner's lock guards it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace custash {

class RecordFile {
 public:
  // Makes PATH, or where that is there already PATH.PID, PATH.PID.1 …; never opens one that is
  // there. While it is open the process holds a lock (fcntl) on it. False, with why, when none
  // can be made, or PATH is no regular file.
  bool open(const std::string& path, std::string* why);

  // False when there is no more room for it, or the file is no longer ours: nothing is written
  // then.
  bool append(std::string_view text);

  // Why append() failed; 0 where it did not.
  [[nodiscard]] int error() const { return error_; }

  // Cuts the zeros off.
  void close();

 private:
  [[nodiscard]] bool still_ours() const;
  bool grow();

  int file_ = -1;
  int error_ = 0;
  unsigned long long device_ = 0;  // what file_ was opened as: the program may close any number
  unsigned long long inode_ = 0;
  char* window_ = nullptr;  // the stretch that is mapped
  std::size_t begin_ = 0;   // where it begins in the file
  std::size_t used_ = 0;    // of the file
};

}  // namespace custash
