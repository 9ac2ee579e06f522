// SPDX-License-Identifier: MIT

#include "tools/command/doctor/examine.hpp"
#include "tools/command/launch.hpp"

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <vector>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace custash::doctor {
namespace {

#if defined(__aarch64__)
constexpr const char* kLoader = "/lib/ld-linux-aarch64.so.1";
#else
constexpr const char* kLoader = "/lib64/ld-linux-x86-64.so.2";
#endif

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

}  // namespace

int examine_program(const std::string& name, std::string* why, Findings* findings) {
  const Loaded loaded = loaded_for(name, findings);
  *why = loaded.why;
  if (loaded.code != 0 || !loaded.known) return loaded.code;
  const std::string& path = loaded.path;
  if (uses_musl(path)) {
    findings->push_back({Level::Problem,
                         path,
                         "runs without custash: " + why_not_preloadable(path),
                         "Build it against glibc. custash does not follow programs that it "
                         "starts, either."});
    return 0;
  }
  std::vector<Module> modules = {{path, path}};
  // The loader looks beside the file itself, not beside a link to it.
  for (const Library& library : libraries_of(std::filesystem::canonical(path))) {
    if (!library.path.empty()) {
      modules.push_back({library.path, library.path});
      continue;
    }
    findings->push_back({Level::Problem,
                         path,
                         "needs " + library.name + ", which is not found",
                         "Install it, or name its folder in LD_LIBRARY_PATH."});
  }
  Form form = form_of(modules, findings);
  if (const std::string obstacle = why_not_preloadable(path);
      form == Form::None && !obstacle.empty()) {
    findings->push_back({Level::Problem,
                         path,
                         "runs without custash: " + obstacle,
                         "Link it with libcustash.a, or start it with its user's own rights."});
    return 0;
  }
  if (form == Form::None) form = Form::Preloaded;  // as custash run will have it
  if (const std::string runtime = sanitizer_of(path); !runtime.empty())
    findings->push_back(
        {Level::Note,
         path,
         "built with a sanitizer, which must be the first library",
         "Start it with custash run, or with LD_PRELOAD=" + runtime + ":/…/libcustash.so."});
  if (examine_modules(modules, form, driver_file(), findings)) return 0;
  findings->push_back(
      {Level::Note,
       path,
       "the loader loads no CUDA library; extensions opened later are not listed",
       "Count what custash serves with custash run --summary -- " + name +
           "; plug-ins opened with RTLD_DEEPBIND bypass custash."});
  return 0;
}

}  // namespace custash::doctor
