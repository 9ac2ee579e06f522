// SPDX-License-Identifier: MIT
#include "tools/command/compare/command.hpp"

#include "interpose/process/printable.hpp"
#include "tools/command/compare/forms.hpp"
#include "tools/command/compare/session.hpp"
#include "tools/command/launch.hpp"
#include "tools/command/run/tell.hpp"
#include "tools/conf.hpp"
#include "tools/output_file.hpp"
#include "tools/text.hpp"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <exception>
#include <filesystem>
#include <sstream>
#include <stdexcept>
#include <string_view>

#include <sys/stat.h>
#include <unistd.h>

namespace custash::compare {
namespace {

output::Kind kind_of(const std::string& path) {
  const std::string ending = std::filesystem::path(path).extension();
  if (ending == ".html") return output::Kind::Report;
  if (ending == ".svg") return output::Kind::Picture;
  if (ending == ".md" || ending == ".json") return output::Kind::Comparison;
  throw std::runtime_error("--export: " + path + ": end the name in .html, .md, .svg or .json");
}

Output export_of(const CommandOptions& options, const std::string& path) {
  return {path, kind_of(path), options.force};
}

// Writes as many as it can; why the first that it could not was refused.
std::exception_ptr write_exports(const CommandOptions& options,
                                 const Comparison& comparison,
                                 const Report& report,
                                 const std::string& date) {
  std::exception_ptr refused;
  for (const std::string& path : options.exports) {
    const std::string_view name = path;
    std::string text;
    if (name.ends_with(".json"))
      text = as_json(options, comparison, report, date);
    else if (name.ends_with(".md"))
      text = as_markdown(report);
    else
      text = name.ends_with(".svg") ? as_picture(report) : as_page(report);
    try {
      write_output(export_of(options, path), text);
      run::tell(run::written(path, text.size(), "comparison"));
    } catch (const std::exception& why) {
      if (refused) run::tell(why.what());
      if (!refused) refused = std::current_exception();
    }
  }
  return refused;
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  char text[16];
  std::tm local{};
  return std::strftime(text, sizeof text, "%F", localtime_r(&now, &local)) == 0 ? "" : text;
}

// A run with custash that is switched off would compare the program with itself.
void require_custash_on(const std::string& conf) {
  const char* const before = std::getenv("CUSTASH_CONF");
  const std::string all = join_conf({before == nullptr ? "" : before, conf});
  if (!parse_config(all.c_str()).config.enabled)
    throw std::runtime_error("enabled:false, in CUSTASH_CONF or --conf, switches custash off");
}

// Throws where nothing can be started. 0, or the launcher's code.
int check_program(const CommandOptions& options, std::string* library) {
  (void)require_conf("--conf", options.conf);
  (void)require_conf("--against", options.against);
  require_custash_on(options.conf);
  if (options.program.empty())
    throw std::runtime_error(
        "no program given (custash compare [OPTIONS] -- PROGRAM [ARGUMENTS]; see --help)");
  for (const std::string& path : options.exports)
    require_output(export_of(options, path));
  *library = require_library(options.library);
  require_check_library(*library);
  const std::string path = find_program(options.program.front());
  if (path.empty()) {
    run::tell(options.program.front() + ": not found on PATH");
    return kExitNotFound;
  }

  struct stat info {};

  const bool is_there = stat(path.c_str(), &info) == 0;
  if (!is_there || S_ISDIR(info.st_mode) || access(path.c_str(), X_OK) != 0) {
    run::tell(options.program.front() + ": " +
              std::strerror(is_there && S_ISDIR(info.st_mode) ? EISDIR : errno));
    return is_there ? kExitNotRunnable : kExitNotFound;
  }
  if (const std::string why = why_not_preloadable(path); !why.empty())
    throw std::runtime_error(options.program.front() + " cannot run with custash: " + why);
  return 0;
}

void tell_failure(const Comparison& comparison) {
  run::tell(comparison.failure);
  if (comparison.said.empty()) return;
  std::string said = "The program wrote last:\n";
  std::istringstream lines(comparison.said);
  constexpr std::size_t kWidest = 200;
  for (std::string line; std::getline(lines, line);) {
    line = printable(line);  // first: a null byte takes four characters
    said +=
        "  " + std::string(cut(line, kWidest)) + (line.size() > kWidest ? "..." : "") + "\n";
  }
  std::fputs(said.c_str(), stderr);
}

}  // namespace

const char* const kHelp =
    "Examples:\n"
    "  custash compare -- ./app\n"
    "  custash compare --runs 10 --export app.html -- ./app --steps 100\n"
    "  custash compare --metric 'step: ([0-9.]+) ms' --ignore '^step:' -- python3 train.py\n"
    "  custash compare --conf run_ahead:50 -- ./app\n"
    "  custash compare --against run_ahead:0 --conf run_ahead:50 -- ./app\n"
    "  custash compare --with-env PYTORCH_NO_CUDA_MEMORY_CACHING=1 -- python3 train.py\n"
    "\n"
    "A round is one run without and one with custash; every other round begins with the second.\n"
    "Standard input is empty, and output goes to files. It must not use the terminal.\n"
    "\n"
    "noise     A difference counts if chance alone would make it in less than 5 of 100 cases\n"
    "          (Wilcoxon's exact signed-rank test, round by round). That takes 6 rounds or\n"
    "          more. The report also says between which bounds the difference lies with 95 %\n"
    "          certainty. \"No gain\" also stands for gains below 1 %.\n"
    "time      User and system time include the processes that PROGRAM has waited for.\n"
    "options   --against compares two settings of custash: its runs stand in for those without\n"
    "          custash. enabled:false switches custash off.\n"
    "cache     --with-env compares a framework's own cache with custash in its place.\n"
    "memory    NVML reports the memory of PROGRAM's processes every 10 ms; shorter peaks are\n"
    "          missed. In most containers it lists no processes. Then it is what all devices\n"
    "          hold above their level before the run.\n"
    "driver    Calls avoided: the calls that custash served, less those that it made instead.\n"
    "          Time in the driver: the first warm-up \"without custash\" runs with caching:never,\n"
    "          which times each cudaMalloc and cudaFree. From that the report takes off what\n"
    "          custash's own calls took. It is missing if PROGRAM allocates in other ways.\n"
    "\n"
    "Ctrl-C ends PROGRAM and all that it started; the report then has the rounds that are\n"
    "complete. Ctrl-Z does nothing: a stopped round could not be timed.\n"
    "\n"
    "Exit status: 0 if output and exit status are the same on both sides; 1 if they differ, or\n"
    "if a run failed; 125 for a wrong option; 126 if PROGRAM cannot be run; 127 if it is not\n"
    "found; 128 + N after the signal N.\n";

int run_command(const CommandOptions& options) {
  std::string library;
  if (const int code = check_program(options, &library); code != 0) return code;
  Comparison comparison = Session(options, library).run();
  const std::string date = today();
  const Report report = report_of(options, comparison, date);
  const bool failed = !comparison.failure.empty();
  if (failed) tell_failure(comparison);
  // Before the report: its reader may be gone.
  std::exception_ptr refused;
  if (!comparison.rounds.empty())
    refused = write_exports(options, comparison, report, date);
  else if (!options.exports.empty())
    run::tell("no round is complete: nothing is exported");
  if (options.json)
    std::fputs(as_json(options, comparison, report, date).c_str(), stdout);
  else if (!failed || !comparison.rounds.empty())
    std::fputs(as_text(report).c_str(), stdout);
  if (refused) std::rethrow_exception(refused);
  constexpr int kOfSignal = 128;
  if (comparison.interrupted != 0) return kOfSignal + comparison.interrupted;
  return failed || !report.same ? 1 : 0;
}

}  // namespace custash::compare
