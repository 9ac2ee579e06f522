// SPDX-License-Identifier: MIT
// Output files: here alone the library and the command make and replace files. A new file is
// private to its user and never opened through a link. Text is written to a temporary name and
// moved, so readers see the old file or the complete new one. A file that custash did not write
// is never replaced unasked. Libc only; no state; throws only where memory runs out.
#pragma once

#include "allocator/base/log.hpp"
#include "interpose/process/output_kind.hpp"

#include <string>
#include <string_view>

#include <sys/types.h>

namespace custash::output {

// A new file of mode 0600 for reading and writing; -1, with errno, where the name is taken.
int create(const char* path);

// A file of mode 0600 that this user's processes share: theirs, or a new one. -1 where it is
// another user's, has a second name, or others may open it.
int open_shared(const char* path);

// For a log: the file that is there, or a new one. A fifo that no process reads is an error,
// and so is a link of another user, but root (EACCES).
int open_to_append(const std::string& path);

// A mark before the ending: "x.oom.html".
std::string with_mark(const std::string& path, const std::string& mark);

// A new link that names `to`: false, with errno (EEXIST), if the name is taken.
bool link_to(const char* to, const char* path);

// The descriptor under a high number: programs count on low ones.
int moved_up(int file);

// Writes all of it, or returns false with errno. A broken pipe and the limit of a file's size
// are errors, never signals.
bool write_all(int file, std::string_view text);

// Nothing where the process began without it: the number may be a file of the program's.
void write_to_stderr(std::string_view text);

// Reserves the disk blocks of a stretch of a file. Returns 0 or an errno.
int reserve(int file, std::size_t begin, std::size_t size);

// A random name in the folder of `path`, made of its name: NAME.RANDOM.part.
std::string name_beside(const std::string& path);

// `path` with every link followed; its last part may be missing. A link of another user at its
// end stays, and objection() then refuses it.
std::string resolved(const std::string& path);

enum class Replace { Own, Any };  // Own: files of the same kind, and empty ones

// Recognises a file's kind by its first bytes.
using Recognise = Kind (*)(std::string_view beginning);

// Why no file of this kind may be at `path`; empty where one may. A link is not followed.
std::string objection(const std::string& path,
                      Kind kind,
                      Replace replace,
                      Recognise recognise = kind_of);

// Moves a finished file to a name that is free: false, with errno (EEXIST), where it is taken.
bool move_to_free(const std::string& from, const std::string& to);

// Moves a finished file to `to` where objection() is empty. False, with the reason; `from` then
// stays.
bool move(const std::string& from,
          const std::string& to,
          Kind kind,
          Replace replace,
          std::string* why,
          Recognise recognise = kind_of);

enum class Readers { User, All };

// A new file with this text under a random name beside `path`; empty, with the reason, if it
// fails.
std::string write_beside(const std::string& path,
                         std::string_view text,
                         std::string* why,
                         Readers readers = Readers::User);

// write_beside() and move_to_free(), where no user chose the name, so that it may neither
// replace a file nor follow a link. If it is taken, the process's number is added before the
// ending; `path` receives the name.
bool write_beside_others(std::string* path,
                         std::string_view text,
                         pid_t process,
                         std::string* why);

// write_beside() and move(). On failure nothing is left behind and the old file is whole.
bool write(const std::string& path,
           std::string_view text,
           Kind kind,
           Replace replace,
           std::string* why,
           Recognise recognise = kind_of);

}  // namespace custash::output

// ---- Where the lines of the log go (options log and log_file): log_file.cpp.
namespace custash::log_file {

// Begins the log in the file at `path`, or on standard error where `path` is empty. A missing
// file is made, a missing folder is not. Returns the reason where there is no log.
std::string open(LogLevel level, const std::string& path);

}  // namespace custash::log_file
