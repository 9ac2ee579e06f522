// SPDX-License-Identifier: MIT
#include "tools/command/record.hpp"

#include "interpose/process/file_name.hpp"
#include "interpose/process/output_text.hpp"
#include "tools/command/run/tell.hpp"
#include "tools/output_file.hpp"
#include "tools/replay/trace.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <set>
#include <stdexcept>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace custash {
namespace {

namespace fs = std::filesystem;

// Locked, so that no other run takes it for one that a killed run left; -1 where a process that
// outlived the program still records, or another file has come to that name.
int lock_recording(const std::string& path) {
  const int file = open(path.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

  struct stat info {};

  if (file >= 0 && (fstat(file, &info) != 0 || !S_ISREG(info.st_mode) || info.st_nlink != 1)) {
    close(file);
    return -1;
  }

  struct flock lock {};

  lock.l_type = F_WRLCK;
  // Of this descriptor: a process's own lock would go when read_file() closes another one.
  if (file < 0 || fcntl(file, F_OFD_SETLK, &lock) == 0 || (errno != EACCES && errno != EAGAIN))
    return file;
  close(file);
  return -1;
}

// Cuts off the zeros that a killed process leaves behind the text, and gives the recording its
// name.
void end_recording(const std::string& from, const Output& to) {
  const int file = lock_recording(from);
  if (file < 0) {
    std::fprintf(stderr,
                 "custash: %s: still being recorded, or not ours; left as it is\n",
                 from.c_str());
    return;
  }
  try {
    std::string text = replay::read_file(from);
    text.erase(text.find_last_not_of('\0') + 1);
    text.erase(text.rfind('\n') + 1);
    if (fs::path(to.path).extension() == ".xz") {
      write_output(to, replay::pack(text));
      fs::remove(from);
    } else {
      if (ftruncate(file, static_cast<off_t>(text.size())) != 0)
        throw std::runtime_error(from + ": " + std::strerror(errno));
      move_output(from, to);
    }
    const auto events = std::count(text.begin(), text.end(), '\n') - (text.rfind('#', 0) == 0);
    run::tell(run::written(to.path, fs::file_size(to.path), run::counted(events, "event")));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "custash: %s; the recording is in %s\n", error.what(), from.c_str());
  }
  close(file);
}

// Whether a name that begins with NAME goes on as name_beside() and RecordFile have it.
bool is_beside(std::string_view ending) {
  constexpr std::size_t kRandom = 12;
  constexpr std::string_view kPart = ".part";
  return ending.size() >= 1 + kRandom + kPart.size() && ending.front() == '.' &&
         ending.find_first_not_of("0123456789abcdef", 1) == 1 + kRandom &&
         ending.substr(1 + kRandom, kPart.size()) == kPart &&
         ending.find_first_not_of(".0123456789", 1 + kRandom + kPart.size()) ==
             std::string_view::npos;
}

// The names in the folder of `path` that begin with its name, and how they go on.
std::set<std::string> endings(const fs::path& path) {
  std::set<std::string> found;
  const std::string name = path.filename();
  for (const auto& entry : fs::directory_iterator(path.parent_path())) {
    const std::string other = entry.path().filename();
    if (other.compare(0, name.size(), name) == 0) found.insert(other.substr(name.size()));
  }
  return found;
}

}  // namespace

std::string recording_place(const std::string& path) {
  return output::name_beside(path);
}

void remove_left_recordings(const std::string& path) {
  for (const std::string& ending : endings(path)) {
    const std::string name = path + ending;
    if (!is_beside(ending) ||
        !output::objection(name, output::Kind::Recording, output::Replace::Own).empty())
      continue;
    const int file = lock_recording(name);
    if (file < 0) continue;
    fs::remove(name);
    close(file);
  }
}

bool end_recordings(const std::string& place, const std::string& path, bool force) {
  bool any = false;
  const auto end = [&](const std::string& from, const std::string& to) {
    end_recording(from, {to, output::Kind::Recording, force, false});
    any = true;
  };
  if (!file_name::has_marks(path)) {
    for (const std::string& ending : endings(place))
      end(place + ending, path + ending);
    return any;
  }
  constexpr std::string_view kPart = ".part";
  // Each process has filled the marks in: only what name_beside() has added is known.
  const std::string added = place.substr(place.rfind('.', place.size() - kPart.size() - 1));
  const fs::path folder = fs::path(path).parent_path();
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder))
    names.insert(entry.path().filename());
  for (const std::string& name : names) {
    const std::size_t at = name.find(added);
    if (at == std::string::npos) continue;
    end(folder / name, folder / (name.substr(0, at) + name.substr(at + added.size())));
  }
  return any;
}

}  // namespace custash
