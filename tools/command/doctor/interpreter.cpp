// SPDX-License-Identifier: MIT
#include "tools/command/doctor/examine.hpp"
#include "tools/command/launch.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include <sys/stat.h>
#include <unistd.h>

namespace custash::doctor {
namespace {

constexpr int kMostScripts = 4;  // as the kernel follows them

std::string base_name(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

bool is_shell(const std::string& path) {
  constexpr std::array kShells = {"ash", "bash", "dash", "fish", "ksh", "mksh", "sh", "zsh"};
  return std::find(kShells.begin(), kShells.end(), base_name(path)) != kShells.end();
}

bool is_python(const std::string& path) {
  const std::string name = base_name(path);
  return name.rfind("python", 0) == 0 || name.rfind("pypy", 0) == 0;
}

// As exec fails; 0 where it does not.
int error_of(const std::string& path) {
  struct stat info {};

  if (stat(path.c_str(), &info) != 0) return errno;
  if (S_ISDIR(info.st_mode)) return EISDIR;
  return access(path.c_str(), X_OK) == 0 ? 0 : errno;
}

// The first line names a script's interpreter; env is followed to the program that it looks
// for. A text without such a line is the shell's, as execvp has it. Empty: no script.
std::string interpreter_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string line;
  std::getline(file, line);
  if (line.rfind("\x7f"
                 "ELF",
                 0) == 0)
    return "";
  if (line.rfind("#!", 0) != 0) return "/bin/sh";
  std::istringstream words(line.substr(2));
  std::string word;
  words >> word;
  if (base_name(word) != "env") return word;
  while (words >> word) {
    if (word.front() == '-' || word.find('=') != std::string::npos) continue;
    const std::string found = find_program(word);
    return found.empty() ? word : found;
  }
  return "";
}

Finding undecided(const std::string& name, const std::string& path, const std::string& what) {
  const std::string advice =
      is_python(name) ? "Name the Python that it starts: custash doctor -- \"$(" + name +
                            " -c 'import sys; print(sys.executable)')\""
                      : "Name the program that it starts; custash run serves that one, too.";
  return {Level::Note, path, what, advice};
}

}  // namespace

Loaded loaded_for(const std::string& name, Findings* findings) {
  Loaded loaded{find_program(name)};
  if (loaded.path.empty()) return {"", kExitNotFound, "not found on PATH"};
  for (int scripts = 0; scripts <= kMostScripts; ++scripts) {
    if (const int error = error_of(loaded.path); error != 0) {
      loaded.code = error == ENOENT ? kExitNotFound : kExitNotRunnable;
      loaded.why = std::strerror(error);
      if (scripts > 0) loaded.why = "its interpreter " + loaded.path + ": " + loaded.why;
      return loaded;
    }
    const std::string target = std::filesystem::canonical(loaded.path);
    if (is_python(loaded.path) && !is_python(target)) {
      findings->push_back(undecided(
          name, loaded.path, "a link to " + target + ", which starts another program"));
      loaded.known = false;
      return loaded;
    }
    const std::string interpreter = interpreter_of(loaded.path);
    if (interpreter.empty()) return loaded;
    if (is_shell(interpreter)) {
      findings->push_back(
          undecided(name,
                    loaded.path,
                    "a shell script, run by " + interpreter + ": it starts another program"));
      loaded.known = false;
      return loaded;
    }
    findings->push_back({Level::Note, loaded.path, "a script, run by " + interpreter, ""});
    loaded.path = interpreter;
  }
  return loaded;
}

}  // namespace custash::doctor
