// SPDX-License-Identifier: MIT
#include "tools/doctor/program.hpp"

#include "tools/doctor/elf.hpp"
#include "tools/launch.hpp"

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace custash::doctor {
namespace {

constexpr const char* kLoader = "/lib64/ld-linux-x86-64.so.2";

// Only NVIDIA's runtime has a name for this code, wherever it was linked into.
constexpr std::string_view kRuntimeMark = "cudaErrorSoftwareValidityNotEstablished";

// A module's bytes, mapped: libraries of frameworks have gigabytes.
class Contents {
 public:
  explicit Contents(const std::string& path) {
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);

    struct stat what {};

    if (file >= 0 && fstat(file, &what) == 0 && what.st_size > 0) {
      const auto size = static_cast<std::size_t>(what.st_size);
      void* const at = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
      if (at != MAP_FAILED) text_ = {static_cast<const char*>(at), size};
    }
    if (file >= 0) close(file);
  }

  ~Contents() {
    if (!text_.empty()) munmap(const_cast<char*>(text_.data()), text_.size());
  }

  Contents(const Contents&) = delete;
  Contents& operator=(const Contents&) = delete;

  [[nodiscard]] std::string_view text() const { return text_; }

 private:
  std::string_view text_;
};

bool has(std::string_view text, std::string_view what) {
  return memmem(text.data(), text.size(), what.data(), what.size()) != nullptr;
}

std::string base_name(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

// What the loader would load, by its own word: the program is not run.
std::string loader_list(const std::string& path) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return "";
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (nowhere >= 0) dup2(nowhere, STDERR_FILENO);
    unsetenv("LD_PRELOAD");
    setenv("LD_TRACE_LOADED_OBJECTS", "1", 1);  // as ldd does: list, do not start
    execl(kLoader, kLoader, path.c_str(), static_cast<char*>(nullptr));
    _exit(kExitNotRunnable);
  }
  close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t got = 0; (got = read(ends[0], buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<std::size_t>(got));
  close(ends[0]);
  int status = 0;
  if (child > 0) waitpid(child, &status, 0);
  return text;
}

struct Library {
  std::string name;
  std::string path;  // empty: not found
};

// Lines "name => path (address)", and "name => not found".
std::vector<Library> libraries_of(const std::string& path) {
  std::vector<Library> libraries;
  std::istringstream lines(loader_list(path));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name, arrow, where;
    if (!(words >> name >> arrow >> where) || arrow != "=>") continue;
    libraries.push_back({name, where.front() == '/' ? where : ""});
  }
  return libraries;
}

// A script's interpreter, by its first line; the path itself where it is none.
std::string interpreter_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string line;
  std::getline(file, line);
  if (line.rfind("#!", 0) != 0) return path;
  std::istringstream words(line.substr(2));
  std::string word;
  words >> word;
  if (base_name(word) != "env") return word;
  while (words >> word) {
    if (word.front() != '-' && word.find('=') == std::string::npos) return find_program(word);
  }
  return "";
}

// How a module comes to CUDA; empty: it does not. The doors are those of docs/semantics.md.
std::string way_of(const std::string& name, std::string_view text) {
  const auto holds = [text](std::string_view what) { return has(text, what); };
  if (name.rfind("libcudart.so", 0) == 0)
    return "the shared CUDA runtime; served at the runtime's names and below them";
  const std::vector<std::string> all_needed = needed_of(text);
  // First: debug information may hold the mark, too.
  for (const std::string& needed : all_needed) {
    if (needed.rfind("libcudart.so", 0) == 0)
      return "linked with " + needed + "; served at its names";
  }
  if (holds(kRuntimeMark))
    return "holds a static CUDA runtime; served through its look-up of the driver";
  for (const std::string& needed : all_needed) {
    if (needed.rfind("libcuda.so", 0) == 0)
      return "linked with the driver; served at the driver's names";
  }
  if (holds("libcuda.so") && holds("cuInit"))
    return "opens the driver by itself; served through its look-ups";
  return "";
}

}  // namespace

bool examine_module(const std::string& path, const std::string& file, Findings* findings) {
  const std::string name = base_name(path);
  if (name.rfind("libcuda.so", 0) == 0) return false;  // the driver's own finding
  const Contents contents(file);
  const std::string_view text = contents.text();
  if (name.rfind("libcustash.so", 0) != 0 && has(text, "CUSTASH_CONF") &&
      has(text, "custash_malloc")) {
    findings->push_back(
        {Level::Note, path, "custash is linked in", "Do not preload it as well."});
    return true;
  }
  const std::string way = way_of(name, text);
  if (!way.empty()) findings->push_back({Level::Ok, path, way, ""});
  return !way.empty();
}

bool examine_program(const std::string& name, Findings* findings) {
  const std::string found = find_program(name);
  if (found.empty()) return false;
  const std::string path = interpreter_of(found);
  if (path.empty()) return false;
  if (path != found) findings->push_back({Level::Note, found, "a script, run by " + path, ""});
  if (const std::string why = why_not_preloadable(path); !why.empty()) {
    findings->push_back({Level::Problem,
                         path,
                         "runs without custash: " + why,
                         "Link it with libcustash.a, or start it with its user's own rights."});
    return true;
  }
  const std::vector<Library> libraries = libraries_of(path);
  bool comes_to_cuda = examine_module(path, path, findings);
  for (const Library& library : libraries) {
    if (library.path.empty()) {
      findings->push_back({Level::Problem,
                           path,
                           "needs " + library.name + ", which is not found",
                           "Install it, or name its folder in LD_LIBRARY_PATH."});
    } else {
      comes_to_cuda = examine_module(library.path, library.path, findings) || comes_to_cuda;
    }
  }
  findings->push_back(
      {Level::Note,
       path,
       comes_to_cuda
           ? "what it opens while it runs is not listed here"
           : "no CUDA in what the loader loads; extensions that it opens are not listed",
       "See what is served by custash run --summary -- " + name +
           "; plug-ins opened with "
           "RTLD_DEEPBIND pass by."});
  return true;
}

}  // namespace custash::doctor
