// SPDX-License-Identifier: MIT
#include "tools/record.hpp"

#include "tools/replay/file.hpp"
#include "tools/run/tell.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include <fcntl.h>
#include <unistd.h>

namespace custash {
namespace {

namespace fs = std::filesystem;

// A process that outlived the program holds a lock on what it records.
bool in_use(const std::string& path) {
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);

  struct flock lock {};

  lock.l_type = F_WRLCK;
  const bool locked = fcntl(file, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
  close(file);
  return locked;
}

// A process that was killed leaves zeros behind the text.
void end_recording(const std::string& from, const std::string& to) {
  if (in_use(from)) {
    std::fprintf(stderr, "custash: %s: still being recorded; left as it is\n", from.c_str());
    return;
  }
  std::string text = replay::read_file(from);
  text.erase(std::min(text.find('\0'), text.size()));
  text.erase(text.rfind('\n') + 1);
  fs::resize_file(from, text.size());
  if (from != to) {
    std::ofstream file(to, std::ios::binary);
    file << replay::pack(text);
    if (!file.flush()) throw std::runtime_error(to + ": cannot be written");
    fs::remove(from);
  }
  const auto events = std::count(text.begin(), text.end(), '\n');
  run::tell(run::written(to, fs::file_size(to), run::counted(events, "event")));
}

// What follows `name` in the names beside it: "" and ".PID", ".PID.N".
std::set<std::string> endings(const fs::path& path) {
  std::set<std::string> found;
  const std::string name = path.filename();
  const fs::path folder = path.parent_path().empty() ? "." : path.parent_path();
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string other = entry.path().filename();
    if (other.compare(0, name.size(), name) != 0) continue;
    const std::string ending = other.substr(name.size());
    if (ending.empty() || (ending.front() == '.' && ending.size() > 1 &&
                           ending.find_first_not_of(".0123456789") == std::string::npos))
      found.insert(ending);
  }
  return found;
}

}  // namespace

std::string recording_place(const std::string& path) {
  return fs::path(path).extension() == ".xz" ? path + ".part" : path;
}

void require_place(const std::string& path) {
  const fs::path folder = fs::path(path).parent_path();
  if (fs::is_directory(path)) throw std::runtime_error(path + ": " + std::strerror(EISDIR));
  if (access(folder.c_str(), W_OK | X_OK) != 0)
    throw std::runtime_error(path + ": " + std::strerror(errno));
}

void require_no_other_file(const std::string& path) {
  constexpr char kOfXz = '\xfd';  // text begins with a time
  std::ifstream file(path, std::ios::binary);
  char first = 0;
  if (file.get(first) && first != kOfXz && std::strchr("0123456789", first) == nullptr)
    throw std::runtime_error(path +
                             ": is there already, and is no recording; nothing was started");
}

std::set<std::string> clear_recordings(const std::string& path) {
  const std::string place = recording_place(path);
  fs::remove(path);
  fs::remove(place);
  return endings(place);
}

bool end_recordings(const std::string& path, const std::set<std::string>& before) {
  const std::string place = recording_place(path);
  bool any = false;
  for (const std::string& ending : endings(place)) {
    if (before.count(ending) != 0) continue;
    end_recording(place + ending, path + ending);
    any = true;
  }
  return any;
}

}  // namespace custash
