// SPDX-License-Identifier: MIT
// Output files: here alone the library opens files to write to. A new file is private to its
// user and never opened through a link of another one. Libc only; no state.
#pragma once

#include "allocator/base/log.hpp"

#include <string>
#include <string_view>

#include <sys/stat.h>

namespace custash::output {

// A new file of mode 0600 for reading and writing; -1, with errno, where the name is taken.
int create(const char* path);

// A file of mode 0600 that this user's processes share: theirs, or a new one. -1 where it is
// another user's, has a second name, or others may open it.
int open_shared(const char* path);

// Another user could have made this link to lead the process to a file that it must not write
// to.
bool is_foreign(const struct stat& link);

// For a log: the file that is there, or a new one. A fifo that no process reads is an error,
// and so is a link of another user, but root (EACCES).
int open_to_append(const std::string& path);

// The descriptor under a high number: programs count on low ones.
int moved_up(int file);

// Writes all of it, or returns false with errno. A broken pipe and the limit of a file's size
// are errors, never signals.
bool write_all(int file, std::string_view text);

// Nothing where the process began without it: the number may be a file of the program's.
void write_to_stderr(std::string_view text);

// Reserves the disk blocks of a stretch of a file. Returns 0 or an errno.
int reserve(int file, std::size_t begin, std::size_t size);

// `path` with every link followed; its last part may be missing. A link of another user at its
// end stays, and objection() then refuses it.
std::string resolved(const std::string& path);

}  // namespace custash::output

// ---- Where the lines of the log go (options log and log_file): log_file.cpp.
namespace custash::log_file {

// Begins the log in the file at `path`, or on standard error where `path` is empty. A missing
// file is made, a missing folder is not. Returns the reason where there is no log.
std::string open(LogLevel level, const std::string& path);

}  // namespace custash::log_file
