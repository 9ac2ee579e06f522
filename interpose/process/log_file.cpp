// SPDX-License-Identifier: MIT

#include "interpose/process/output_file.hpp"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace custash::log_file {
namespace {

struct Log {
  std::string path;
  std::string place;  // where it is, in whatever folder the program works
  int file = -1;

  struct stat info {};  // of the file: the program may close any descriptor

  bool told = false;
};

constinit Log* current = nullptr;  // never destroyed: lines may come during exit

bool is_still_ours(const Log& log) {
  struct stat now {};

  // A new file may have the number of a log that was removed. Ours is open to append.
  if (fstat(log.file, &now) == 0 && now.st_dev == log.info.st_dev &&
      now.st_ino == log.info.st_ino && (fcntl(log.file, F_GETFL) & O_APPEND) != 0 &&
      fcntl(log.file, F_GETFD) == FD_CLOEXEC)
    return true;
  errno = EBADF;
  return false;
}

void write_to_stderr(std::string_view line) {
  output::write_to_stderr(line);
}

bool open_file(Log* log) {
  log->file = output::open_to_append(log->place);
  if (log->file < 0 || fstat(log->file, &log->info) != 0) return false;
  log->file = output::moved_up(log->file);
  return true;
}

// A line that cannot be written is lost. Standard error reports the first such line only.
void write_to_file(std::string_view line) {
  Log& log = *current;
  const bool there = is_still_ours(log) || open_file(&log);
  if ((there && output::write_all(log.file, line)) || log.told) return;
  log.told = true;
  write_to_stderr("custash: log_file:" + log.path + ": " + std::strerror(errno) +
                  "; log lines are lost\n");
}

}  // namespace

std::string open(LogLevel level, const std::string& path) {
  if (level == LogLevel::Off) return "";
  if (path.empty()) {
    open_log(level, write_to_stderr);
    return "";
  }
  Log log{.path = path, .place = path};
  if (!open_file(&log)) return "log_file:" + path + ": " + std::strerror(errno);
  log.place = output::resolved(path);
  current = new Log(log);
  open_log(level, write_to_file);
  return "";
}

}  // namespace custash::log_file
