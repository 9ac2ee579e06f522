// SPDX-License-Identifier: MIT
#include "tools/command/run/command.hpp"

#include "allocator/base/config.hpp"
#include "interpose/history/ledger.hpp"
#include "interpose/process/file_name.hpp"
#include "interpose/process/live_page.hpp"
#include "tools/command/launch.hpp"
#include "tools/command/record.hpp"
#include "tools/command/run/folder.hpp"
#include "tools/command/run/renders.hpp"
#include "tools/command/run/reports.hpp"
#include "tools/command/run/supervise.hpp"
#include "tools/command/run/tell.hpp"
#include "tools/command/snapshot/command.hpp"
#include "tools/conf.hpp"
#include "tools/output_file.hpp"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <stdexcept>

#include <sys/wait.h>
#include <unistd.h>

namespace custash {
namespace {

std::string environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

int fail(const std::string& message) {
  std::fprintf(stderr, "custash: %s\n", message.c_str());
  return kExitCustash;
}

void set_environment(const char* name, const std::string& value) {
  if (setenv(name, value.c_str(), 1) != 0)
    throw std::runtime_error("the environment cannot be changed");
}

// Where an option's file is to be. The program may go to another folder.
std::string file_of(const char* option, Output output) {
  if (output.path != "-") output.path = std::filesystem::absolute(output.path);
  std::string path = require_file(output);
  if (file_name::has_marks(std::filesystem::path(path).parent_path().native()))
    throw std::runtime_error(std::string(option) +
                             " takes %r, %h and %p in a name, not in a folder");
  if (path.find(',') == std::string::npos) return path;
  throw std::runtime_error(std::string(option) + " takes a path without commas");
}

// A path in --conf where the library could not write. It keeps files that are there, and adds a
// number.
void require_place(const char* key, const std::string& path) {
  if (path.empty()) return;
  const std::filesystem::path folder = std::filesystem::absolute(path).parent_path();
  const bool is_folder = std::filesystem::is_directory(path);
  if (!is_folder && access(folder.c_str(), W_OK | X_OK) == 0) return;
  throw std::runtime_error("--conf: " + std::string(key) + ":" + path + ": " +
                           std::strerror(is_folder ? EISDIR : errno));
}

void require_folder(const char* key, const std::string& path) {
  if (path.empty()) return;
  if (access((path + "/.").c_str(), W_OK | X_OK) == 0) return;
  throw std::runtime_error("--conf: " + std::string(key) + ":" + path + ": " +
                           std::strerror(errno));
}

void check_conf(const RunOptions& options) {
  const Config config = parse_config(options.conf).config;
  require_place("record", config.record);
  require_place("snapshot", config.snapshot);
  require_place("log_file", config.log_file);
  if (config.guard_report != "-") require_place("guard_report", config.guard_report);
  require_folder("sleep_dir", config.sleep_dir);
  if (!config.snapshot.empty()) (void)snapshot::form_of(config.snapshot);  // throws
  const bool checks = options.check_memory || options.check_streams;
  if (!options.json.empty() && !checks)
    throw std::runtime_error("--json needs --check-memory or --check-streams");
  if (checks && !config.guard_report.empty() && config.guard_report != "-")
    throw std::runtime_error("--conf guard_report: with a check, write --json " +
                             config.guard_report);
  for (const auto& [name, given] : {std::pair{"--error-exitcode", options.error_code != 0},
                                    std::pair{"--suppressions", !options.suppressions.empty()}})
    if (given && !checks && !options.leaks)
      throw std::runtime_error(std::string(name) +
                               " needs --check-memory, --check-streams or --leaks");
  if (!config.record.empty() && !options.record.empty())
    throw std::runtime_error("--record and --conf record: name two files; give one of them");
  if (!config.snapshot.empty() && !options.history.empty())
    throw std::runtime_error(
        "--record-history and --conf snapshot: name two files; give one of them");
}

// What the options ask of the library. --conf may choose another length of the history: the
// last of two wins.
std::string given_conf(const RunOptions& options,
                       const std::string& record,
                       const std::string& history,
                       const std::string& findings) {
  return join_conf({history.empty() ? "" : "history:200000",
                    options.check_memory ? "guard:all+fill,guard_report:-" : "",
                    options.check_streams ? "check_streams:true,guard_report:-" : "",
                    options.conf,
                    record.empty() ? "" : "record:" + record,
                    history.empty() ? "" : "snapshot:" + history,
                    findings.empty() ? "" : "guard_report:" + findings,
                    options.leaks ? "leaks:true" : "",
                    options.summary ? "summary:true" : ""});
}

// Whether the program will write a snapshot, of which the command makes another form than JSON.
bool needs_renders(const Config& config) {
  auto form = snapshot::form_of_ending(config.snapshot);
  if (!form && config.snapshot_signal != 0)
    form = snapshot::form_of_ending(snapshot::kUsualPath);
  return config.enabled && form && *form != snapshot::Form::Json;
}

int print_conf(const RunOptions& options) {
  const std::string present = environment("CUSTASH_CONF");
  for (const std::string& complaint : parse_config(present).complaints)
    std::fprintf(stderr, "%s\n", complaint.c_str());
  const std::string given = given_conf(options, options.record, options.history, options.json);
  std::fputs(options_in_force(present, given).c_str(), stdout);
  return 0;
}

// Reads and checks everything before anything is started.
class Launch {
 public:
  explicit Launch(const RunOptions& options) : options_(options) {
    check_conf(options);
    if (!options.record.empty()) {
      recording_ =
          file_of("--record", {options.record, output::Kind::Recording, options.force});
      place_ = recording_place(recording_);
    }
    if (!options.history.empty()) {
      const output::Kind kind = snapshot::kind_of(options.history);
      wanted_.history = file_of("--record-history", {options.history, kind, options.force});
      wanted_.force = options.force;
      if (std::filesystem::weakly_canonical(wanted_.history) ==
          std::filesystem::weakly_canonical(recording_))
        throw std::runtime_error("--record and --record-history name the same file");
    }
    if (!options.json.empty()) {
      findings_ = file_of("--json", {options.json, output::Kind::GuardReport, options.force});
    }
    wanted_.leaks = options.leaks;
    wanted_.summary = options.summary;
    wanted_.memory = options.check_memory;
    wanted_.streams = options.check_streams;
    wanted_.json = findings_;
    for (const std::string& word : options.program)
      wanted_.program += (wanted_.program.empty() ? "" : " ") + word;
    if (!options.suppressions.empty())
      wanted_.suppressions = snapshot::Suppressions(options.suppressions);
  }

  int go(const std::string& preload) {
    if (!preload.empty() || std::getenv("LD_PRELOAD") != nullptr)
      set_environment("LD_PRELOAD", preload);
    // The library keeps files that are there.
    if (!findings_.empty() && !file_name::has_marks(findings_))
      (void)std::filesystem::remove(findings_);
    const Config config = parse_config(whole_conf()).config;
    if (!config.enabled) wanted_.off = "enabled:false";
    std::unique_ptr<run::Folder> folder;
    std::unique_ptr<run::Renders> renders;
    if (wanted_.any() || needs_renders(config)) {
      folder = std::make_unique<run::Folder>();
      renders = std::make_unique<run::Renders>(*folder);
      set_environment(kLauncher, launcher_text(*folder));
      if (wanted_.checks() && findings_.empty()) findings_ = folder->path() + "/found.%p.json";
    }
    if (const std::string conf = whole_conf(); !conf.empty())
      set_environment("CUSTASH_CONF", conf);
    if (folder == nullptr && recording_.empty()) return start(options_.program);
    if (!recording_.empty()) remove_left_recordings(recording_);
    const auto make_renders = [&] {
      if (renders != nullptr) renders->make();
    };
    const run::Ended ended = run::run_and_wait(
        options_.program, static_cast<int>(config.snapshot_signal), make_renders);
    bool passed = false;
    try {
      make_renders();
      passed = tell_all(wanted_.any() ? folder.get() : nullptr, ended);
      make_renders();  // of processes that have outlived the program
    } catch (const std::exception& error) {
      run::tell(error.what());  // the status is the program's all the same
    }
    if (renders != nullptr) renders->finish();
    renders.reset();
    folder.reset();
    if (options_.error_code != 0 && !passed && run::has_started(ended))
      return options_.error_code;
    return run::finish_as(ended.status);
  }

 private:
  std::string whole_conf() const {
    return join_conf({environment("CUSTASH_CONF"),
                      given_conf(options_, place_, wanted_.history, findings_)});
  }

  std::string launcher_text(const run::Folder& folder) const {
    return std::string(wanted_.history.empty() ? "" : "h") + (wanted_.leaks ? "l" : "") +
           (wanted_.summary ? "s" : "") + (wanted_.checks() ? "f" : "") +
           (wanted_.any() ? "" : "r") + " " + std::to_string(getpid()) + " " +
           std::to_string(live::start_of(getpid())) + " " + folder.path();
  }

  // False where a check has failed.
  bool tell_all(const run::Folder* folder, const run::Ended& ended) {
    if (folder == nullptr && recording_.empty()) return true;  // nothing was to be reported
    const bool recorded =
        !recording_.empty() && end_recordings(place_, recording_, options_.force);
    const run::Outcome outcome =
        folder == nullptr ? run::Outcome{} : report(*folder, wanted_, ended);
    if (recorded || outcome.used_cuda || !run::has_started(ended)) return outcome.passed;
    if (folder == nullptr) {
      run::tell("nothing was recorded in " + run::shown(recording_) +
                ": the program used no CUDA, or a line above says why");
      return outcome.passed;
    }
    if (!wanted_.leaks && !wanted_.summary && wanted_.history.empty() && recording_.empty())
      return outcome.passed;  // the checkers have said it
    std::string line = !wanted_.off.empty() ? wanted_.off + ": 0 allocations served:"
                       : folder->has_inner()
                           ? "a custash command inside this one has the reports:"
                           : "no process reported the use of CUDA:";
    if (!recording_.empty()) line += " nothing recorded in " + run::shown(recording_) + ",";
    if (!wanted_.history.empty()) line += " " + run::shown(wanted_.history) + " not written,";
    if (wanted_.leaks) line += " no list of leaks,";
    if (wanted_.summary) line += " no summary,";
    run::tell(line.substr(0, line.size() - 1));
    return outcome.passed;
  }

  const RunOptions& options_;
  run::Wanted wanted_;
  std::string recording_;
  std::string findings_;
  std::string place_;  // where the library writes it
};

}  // namespace

int run_command(const RunOptions& options) {
  (void)require_conf("--conf", options.conf);
  if (options.print_conf) return print_conf(options);
  if (options.program.empty()) {
    return fail("no program given (custash run [OPTIONS] -- PROGRAM [ARGUMENTS]; see --help)");
  }
  const std::string library = require_library(options.library);
  if (options.check_memory || options.check_streams || options.leaks || options.summary ||
      !options.record.empty() || !options.history.empty())
    require_check_library(library);
  const std::string& name = options.program.front();
  const std::string path = find_program(name);
  if (path.empty()) {
    run::tell(name + ": not found on PATH");
    return kExitNotFound;
  }
  if (const std::string why = why_not_preloadable(path); !why.empty()) {
    run::tell("warning: " + name + " will run without custash: " + why);
  }
  const std::string present = environment("LD_PRELOAD");
  return Launch(options).go(uses_musl(path)
                                ? preload_without(library, present)
                                : compose_preload(library, present, sanitizer_of(path)));
}

}  // namespace custash
