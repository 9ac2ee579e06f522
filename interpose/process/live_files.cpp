// SPDX-License-Identifier: MIT
// Reads live pages, and removes those whose process is gone. A file may hold anything, because
// any program of the same user may have written it.
#include "interpose/process/live_page.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

namespace custash::live {
namespace {

std::string prefix_of(uid_t user) {
  std::string prefix("custash.");  // by pieces: GCC 12 warns of more (PR 105651)
  prefix += std::to_string(user);
  return prefix += '.';
}

// One copy; empty where it is no file of the user's of the right size.
std::string copy_of(int fd, uid_t user) {
  struct stat info {};

  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_uid != user ||
      info.st_size != static_cast<off_t>(sizeof(Page)))
    return {};
  std::string bytes(sizeof(Page), '\0');
  return pread(fd, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(sizeof(Page)) ? bytes
                                                                                        : "";
}

// Two equal copies hold no partial write: a write takes less time than a copy, and would have
// changed the number.
std::optional<Page> read_file(const std::string& path, uid_t user) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return std::nullopt;
  constexpr int kAttempts = 20;
  std::optional<Page> found;
  std::string before = copy_of(fd, user);
  for (int i = 0; i < kAttempts && !before.empty() && !found; ++i) {
    const std::string after = copy_of(fd, user);
    if (before == after) found = parse(after);
    before = after;
  }
  ::close(fd);
  return found;
}

bool is_gone(const Page& page) {
  // Of another namespace it is not ours to judge.
  return page.pid_namespace == pid_namespace() &&
         has_ended(static_cast<pid_t>(page.pid), page.started);
}

struct Stat {
  char state = '?';
  std::uint64_t threads = 0;
  std::uint64_t started = 0;
};

// "PID (name) state …". The name may hold anything; the words after it are the 18th, the number
// of threads, and the 20th, the start.
Stat stat_of(pid_t process) {
  Stat out;
  // By the folder: QEMU answers for the process's own /proc/PID, with a start of its own.
  const int folder = ::open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
  const int file =
      ::openat(folder, (std::to_string(process) + "/stat").c_str(), O_RDONLY | O_CLOEXEC);
  if (folder >= 0) ::close(folder);
  if (file < 0) return out;
  char text[1024];
  const ssize_t size = ::read(file, text, sizeof text - 1);
  ::close(file);
  if (size <= 0) return out;
  text[size] = '\0';
  const char* at = std::strrchr(text, ')');
  for (int word = 1; at != nullptr && word <= 20; ++word) {
    at = std::strchr(at + 1, ' ');
    if (at == nullptr) break;
    if (word == 1) out.state = at[1];
    if (word == 18) std::from_chars(at + 1, text + size, out.threads);
    if (word == 20) std::from_chars(at + 1, text + size, out.started);
  }
  return out;
}

// Of a process that was killed before it had written its page. Old enough to be no page that a
// process of another container is about to write.
bool is_wreck(const std::string& path, const char* number) {
  constexpr time_t kHour = 3600;
  pid_t pid = 0;

  struct stat seen {};

  return std::from_chars(number, number + std::strlen(number), pid).ec == std::errc() &&
         pid > 0 && kill(pid, 0) != 0 && errno == ESRCH && lstat(path.c_str(), &seen) == 0 &&
         S_ISREG(seen.st_mode) && seen.st_mtime < time(nullptr) - kHour;
}

}  // namespace

std::optional<Page> parse(std::string_view bytes) {
  Page page{};
  if (bytes.size() != sizeof page) return std::nullopt;
  std::memcpy(&page, bytes.data(), sizeof page);
  const bool whole = page.magic == kMagic && page.size == sizeof page && page.pid > 0 &&
                     page.sequence % 2 == 0 && page.device_count >= 0 &&
                     page.device_count <= static_cast<std::int64_t>(kDevices);
  if (!whole) return std::nullopt;
  page.name[sizeof page.name - 1] = '\0';
  for (DevicePart& part : page.devices)
    part.bus[sizeof part.bus - 1] = part.uuid[sizeof part.uuid - 1] = '\0';
  return page;
}

std::string path_of(uid_t user, const service::Identity& who) {
  std::string name = service::name_of(user, who);
  std::replace(name.begin(), name.end(), '/', '.');
  return std::string(kFolder) + "/" + name;
}

std::vector<Page> read_all(uid_t user) {
  std::vector<Page> pages;
  DIR* const folder = opendir(kFolder);
  if (folder == nullptr) return pages;
  const std::string prefix = prefix_of(user);
  while (const dirent* const entry = readdir(folder)) {
    if (std::strncmp(entry->d_name, prefix.c_str(), prefix.size()) != 0) continue;
    const std::string path = std::string(kFolder) + "/" + entry->d_name;
    const auto page = read_file(path, user);
    if (page && !is_gone(*page))
      pages.push_back(*page);
    else if (user == geteuid() && (page || is_wreck(path, entry->d_name + prefix.size())))
      (void)unlink(path.c_str());  // somebody else may have been faster
  }
  closedir(folder);
  return pages;
}

std::uint64_t start_of(pid_t process) {
  return stat_of(process).started;
}

bool has_ended(pid_t process, std::uint64_t started) {
  if (kill(process, 0) != 0 && errno == ESRCH) return true;
  const Stat now = stat_of(process);
  // While other threads run, its first may have ended.
  if ((now.state == 'Z' || now.state == 'X') && now.threads <= 1) return true;
  return now.started != 0 && started != 0 && now.started != started;
}

std::uint64_t pid_namespace() {
  struct stat info {};

  return stat("/proc/self/ns/pid", &info) == 0 ? info.st_ino : 0;
}

}  // namespace custash::live
