// SPDX-License-Identifier: MIT
#include "tools/command/compare/capture.hpp"

#include "interpose/process/output_file.hpp"
#include "interpose/process/output_text.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

namespace custash::compare {
namespace {

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw std::runtime_error(path + ": " + why);
}

// The name of a new file beside `path`.
std::string new_file_beside(const std::string& path) {
  std::string why;
  std::string name = output::write_beside(path, "", &why);
  if (name.empty()) refuse(path, why);
  return name;
}

int opened(const std::string& path) {
  const int file = open(path.c_str(), O_RDWR | O_APPEND | O_CLOEXEC | O_NOFOLLOW);
  if (file < 0) refuse(path, std::strerror(errno));
  return output::moved_up(file);  // never standard output itself, where that is closed
}

}  // namespace

Capture::Capture() {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::temp_directory_path(error);
  if (error) {
    const char* const named = std::getenv("TMPDIR");
    refuse(named == nullptr ? "/tmp" : std::string("TMPDIR=") + named, error.message());
  }
  const std::string name = new_file_beside(folder / "custash-compare");
  file_ = opened(name);
  (void)unlink(name.c_str());
}

Capture::Capture(const std::string& path) {
  const std::string name = new_file_beside(path);
  if (!output::move_to_free(name, path)) {
    const int error = errno;
    (void)unlink(name.c_str());
    refuse(path, std::strerror(error));
  }
  file_ = opened(path);
}

Capture::~Capture() {
  if (file_ >= 0) close(file_);
}

Capture::Capture(Capture&& other) noexcept : file_(std::exchange(other.file_, -1)) {
}

Capture& Capture::operator=(Capture&& other) noexcept {
  std::swap(file_, other.file_);
  return *this;
}

std::string Capture::tail(std::size_t bytes) const {
  struct stat info {};

  if (fstat(file_, &info) != 0) return "";
  const auto size = static_cast<std::size_t>(info.st_size);
  const std::size_t begin = size - std::min(size, bytes);
  std::string text(size - begin, '\0');
  const ssize_t got = pread(file_, text.data(), text.size(), static_cast<off_t>(begin));
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  const std::size_t end = text.find('\n');
  const bool is_cut = begin > 0 && end != std::string::npos && end + 1 < text.size();
  return is_cut ? text.substr(end + 1)
                : text;  // a part of a long last line is better than none
}

bool Capture::has_room() const {
  struct statvfs info {};

  if (fstatvfs(file_, &info) != 0 || info.f_blocks == 0) return true;  // it does not tell
  return (geteuid() == 0 ? info.f_bfree : info.f_bavail) > 0;
}

}  // namespace custash::compare
