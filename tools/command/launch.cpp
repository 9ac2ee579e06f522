// SPDX-License-Identifier: MIT
// The launcher's parts. No state; start() replaces the process.
#include "tools/command/launch.hpp"

#include "tools/command/elf.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <stdexcept>

#include <elf.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

namespace custash {
namespace {

// Empty when the file is not there or not readable.
std::string absolute(const std::string& path) {
  std::array<char, PATH_MAX> buffer{};
  if (realpath(path.c_str(), buffer.data()) == nullptr) return {};
  return access(buffer.data(), R_OK) == 0 ? buffer.data() : std::string();
}

std::string own_folder() {
  std::string self = absolute("/proc/self/exe");
  if (self.empty())  // no /proc
    self = absolute(reinterpret_cast<const char*>(getauxval(AT_EXECFN)));
  return self.substr(0, self.rfind('/'));
}

bool is_runnable_file(const std::string& path) {
  struct stat info {};

  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
         access(path.c_str(), X_OK) == 0;
}

// The loader takes both as separators.
constexpr std::string_view kSeparators = ": ";

template <typename Take>
void for_each_preloaded(std::string_view preload, Take take) {
  while (!preload.empty()) {
    const auto end = preload.find_first_of(kSeparators);
    if (const std::string_view item = preload.substr(0, end); !item.empty()) take(item);
    preload = end == std::string_view::npos ? std::string_view() : preload.substr(end + 1);
  }
}

std::string_view file_name_of(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

// GCC's and Clang's, where they are libraries of their own.
bool is_sanitizer(std::string_view path) {
  constexpr std::array<std::string_view, 8> kBeginnings = {"libasan.so",
                                                           "libtsan.so",
                                                           "liblsan.so",
                                                           "libhwasan.so",
                                                           "libclang_rt.asan",
                                                           "libclang_rt.tsan",
                                                           "libclang_rt.lsan",
                                                           "libclang_rt.hwasan"};
  return std::any_of(kBeginnings.begin(), kBeginnings.end(), [&](std::string_view beginning) {
    return file_name_of(path).starts_with(beginning);
  });
}

template <typename Record>
bool read_at(std::ifstream& file, std::size_t offset, Record* record) {
  file.clear();
  file.seekg(static_cast<std::streamoff>(offset));
  return static_cast<bool>(file.read(reinterpret_cast<char*>(record), sizeof *record));
}

}  // namespace

std::string compose_preload(std::string_view ours,
                            std::string_view present,
                            std::string_view runtime) {
  std::string first(runtime);
  std::string rest(ours);
  for_each_preloaded(present, [&](std::string_view item) {
    if (item == ours || item == runtime) return;
    std::string& to = is_sanitizer(item) ? first : rest;
    to.append(to.empty() ? "" : ":").append(item);
  });
  return first.empty() ? rest : first + ":" + rest;
}

std::string preload_without(std::string_view ours, std::string_view present) {
  std::string kept;
  for_each_preloaded(present, [&](std::string_view item) {
    if (item != ours && file_name_of(item) != "libcustash.so")
      kept.append(kept.empty() ? "" : ":").append(item);
  });
  return kept;
}

std::string sanitizer_of(const std::string& path) {
  for (const std::string& needed : needed_of(Contents(path).text()))
    if (is_sanitizer(needed)) return needed;
  return "";
}

bool uses_musl(const std::string& path) {
  return file_name_of(loader_of(Contents(path).text())).starts_with("ld-musl");
}

std::string join_conf(std::initializer_list<std::string_view> parts) {
  std::string out;
  for (const std::string_view part : parts) {
    if (!out.empty() && !part.empty()) out += ',';
    out += part;
  }
  return out;
}

std::string find_library(std::string_view given, std::vector<std::string>* tried) {
  std::vector<std::string> places;
  if (given.empty()) {
    const std::string here = own_folder();
    for (const char* folder : {"/", "/../interpose/", "/../" CUSTASH_LIBDIR "/", "/../lib/"}) {
      places.push_back(here + folder + "libcustash.so");
    }
  } else {
    places.emplace_back(given);
  }
  for (const std::string& place : places) {
    tried->push_back(place);
    std::string found = absolute(place);
    if (shows(Contents(found).text(), "custash_version")) return found;
    if (!found.empty()) tried->back() += " (not a libcustash.so)";
  }
  return {};
}

std::string check_library_of(const std::string& library) {
  std::string found =
      absolute(library.substr(0, library.rfind('/') + 1) + "libcustash-check.so");
  return shows(Contents(found).text(), "custash_open_reports") ? found : "";
}

void require_check_library(const std::string& library) {
  if (check_library_of(library).empty())
    throw std::runtime_error(
        "libcustash-check.so, which checks, records and reports, is not beside " + library);
}

std::string require_library(std::string_view given) {
  std::vector<std::string> tried;
  std::string library = find_library(given, &tried);
  if (library.empty()) {
    std::string message = "libcustash.so not found; looked for";
    for (const std::string& place : tried)
      message += "\n  " + place;
    throw std::runtime_error(message + "\nbuild it (tools/build), or name it with --lib PATH");
  }
  if (library.find_first_of(": ") != std::string::npos)
    throw std::runtime_error("LD_PRELOAD cannot hold a path with a space or a colon: " +
                             library);
  return library;
}

std::string find_program(std::string_view name) {
  std::string program(name);
  if (program.find('/') != std::string::npos) return program;
  const char* const variable = std::getenv("PATH");
  std::string_view path = variable == nullptr ? "/bin:/usr/bin" : variable;
  while (true) {
    const auto colon = path.find(':');
    const std::string folder(path.substr(0, colon));
    std::string candidate = (folder.empty() ? "." : folder) + "/" + program;
    if (is_runnable_file(candidate)) return candidate;
    if (colon == std::string_view::npos) return {};
    path = path.substr(colon + 1);
  }
}

void add_python(std::vector<std::string>* program) {
  constexpr const char* kVariable = "CUSTASH_PYTHON";
  constexpr std::string_view kEnding = ".py";
  const char* const told = std::getenv(kVariable);
  const std::string python = told == nullptr || *told == '\0' ? "python3" : told;
  unsetenv(kVariable);
  if (program->empty()) return;
  const std::string& name = program->front();

  struct stat info {};

  if (!std::string_view(name).ends_with(kEnding) || is_runnable_file(find_program(name)) ||
      stat(name.c_str(), &info) != 0 || !S_ISREG(info.st_mode))
    return;
  program->insert(program->begin(), python);
}

std::string why_not_preloadable(const std::string& path) {
  struct stat info {};

  if (stat(path.c_str(), &info) != 0) return {};
  const bool raises_user = (info.st_mode & S_ISUID) != 0 && info.st_uid != geteuid();
  const bool raises_group = (info.st_mode & S_ISGID) != 0 && info.st_gid != getegid();
  if (raises_user || raises_group) {
    return "it runs with another user's rights, and the loader then ignores LD_PRELOAD";
  }
  if (uses_musl(path)) return "musl's loader loads it, and libcustash.so needs glibc";
  std::ifstream file(path, std::ios::binary);
  Elf64_Ehdr header{};
  if (!read_at(file, 0, &header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) {
    return {};  // a script: its interpreter is what gets loaded
  }
  if (header.e_ident[EI_CLASS] != ELFCLASS64) return "it is not a 64-bit program";
  for (std::size_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment{};
    if (!read_at(file, header.e_phoff + i * header.e_phentsize, &segment)) return {};
    if (segment.p_type == PT_INTERP) return {};
  }
  return "it is linked statically, so no loader runs; link it with libcustash.a instead "
         "(pkg-config --static custash)";
}

std::string beside(const std::string& name) {
  const std::string path = own_folder() + "/" + name;
  return is_runnable_file(path) ? path : std::string();
}

int start(const std::vector<std::string>& program) {
  std::vector<char*> arguments;
  for (const std::string& word : program)
    arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments.front(), arguments.data());
  const int error = errno;
  std::fprintf(stderr, "custash: %s: %s\n", arguments.front(), std::strerror(error));
  return error == ENOENT ? kExitNotFound : kExitNotRunnable;
}

}  // namespace custash
