// SPDX-License-Identifier: MIT
#include "tools/command/live/action.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace custash::live {
namespace {

// With nothing to read, and standard output and error in one pipe.
int spawn(pid_t* child, std::vector<std::string> words, const sigset_t& mask, int out) {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t how;
  posix_spawn_file_actions_init(&files);
  posix_spawnattr_init(&how);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&files, out, STDERR_FILENO);
  posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setsigmask(&how, &mask);
  std::vector<char*> arguments;
  for (std::string& word : words)
    arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const int error =
      posix_spawn(child, "/proc/self/exe", &files, &how, arguments.data(), environ);
  posix_spawnattr_destroy(&how);
  posix_spawn_file_actions_destroy(&files);
  return error;
}

std::string last_line(std::string text) {
  while (!text.empty() && text.back() == '\n')
    text.pop_back();
  return text.substr(text.rfind('\n') + 1);  // npos + 1 is 0
}

}  // namespace

Action::~Action() {
  if (out_ >= 0) close(out_);
  if (child_ <= 0) return;
  kill(child_, SIGTERM);  // a file is whole or not there
  waitpid(child_, nullptr, 0);
}

void Action::start(const std::vector<std::string>& words, const sigset_t& mask) {
  title_ = "custash";
  for (const std::string& word : words)
    title_ += " " + word;
  said_.clear();
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    result_ = title_ + ": " + std::strerror(errno);
    return;
  }
  std::vector<std::string> all{"custash"};
  all.insert(all.end(), words.begin(), words.end());
  const int error = spawn(&child_, std::move(all), mask, ends[1]);
  close(ends[1]);
  out_ = ends[0];
  result_ = title_ + (error == 0 ? " ..." : std::string(": ") + std::strerror(error));
  if (error == 0) return;
  child_ = 0;
  close(std::exchange(out_, -1));
}

bool Action::collect() {
  constexpr std::size_t kEnough = 65536;
  std::array<char, 4096> bytes{};
  const ssize_t got = read(out_, bytes.data(), bytes.size());
  if (got < 0 && errno == EINTR) return false;
  if (got > 0) {
    if (said_.size() < kEnough) said_.append(bytes.data(), static_cast<std::size_t>(got));
    return false;
  }
  close(std::exchange(out_, -1));
  int status = 0;
  waitpid(std::exchange(child_, 0), &status, 0);
  const std::string said = last_line(said_);
  result_ = title_ + ": " + (said.empty() ? "done" : said);
  if (!WIFEXITED(status)) result_ = title_ + ": it was ended";
  return true;
}

}  // namespace custash::live
