// SPDX-License-Identifier: MIT
#include "tools/command/compare/session.hpp"

#include "interpose/history/ledger.hpp"
#include "tools/command/compare/counters.hpp"
#include "tools/command/launch.hpp"
#include "tools/command/run/folder.hpp"
#include "tools/command/run/supervise.hpp"

#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace custash::compare {
namespace {

// The environment of one side. Both are made from this process's own.
struct Environment {
  std::string preload;  // LD_PRELOAD
  std::string conf;     // CUSTASH_CONF
};

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// LD_PRELOAD may name custash already, and the program may have it linked in.
Environment without_custash(const std::string& library) {
  return {preload_without(library, variable("LD_PRELOAD")), "enabled:false"};
}

Environment with_custash(const std::string& library,
                         const std::string& program,
                         const std::string& conf) {
  return {compose_preload(library, variable("LD_PRELOAD"), sanitizer_of(find_program(program))),
          join_conf({variable("CUSTASH_CONF"), conf})};
}

// Only the simulated driver has this name.
bool is_simulated() {
  void* const driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  return driver != nullptr && dlsym(driver, "custash_sim_detector") != nullptr;
}

// Of the files that --keep writes, less the ending.
std::string kept_name(unsigned round, Side side) {
  return "round-" + std::to_string(round + 1) + (side == Side::Without ? "-without" : "-with");
}

bool ended_well(int status) {
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace

std::array<std::string, 2> names_of(const CommandOptions& options) {
  if (options.against.empty()) return {"without custash", "with custash"};
  return {"with " + options.against,
          "with " + (options.conf.empty() ? "no options" : options.conf)};
}

std::string status_text(int status) {
  if (WIFEXITED(status)) return "exit status " + std::to_string(WEXITSTATUS(status));
  return run::signal_name(WTERMSIG(status));
}

Session::Session(const CommandOptions& options, std::string library)
    : options_(options),
      library_(std::move(library)),
      names_(names_of(options)),
      nvml_(Nvml::open()) {
  for (const std::string& each : options.with_env)
    if (const auto end = each.find('='); end == 0 || end == std::string::npos)
      throw std::runtime_error("--with-env: " + each + ": write NAME=VALUE");
  result_.simulated = is_simulated();
  if (nvml_ != nullptr) result_.gpu = nvml_->gpu();
  for (const std::string& each : options.ignore)
    ignored_.push_back(&patterns_.emplace_back("--ignore", each));
  if (!options.metric.empty()) metric_ = std::make_unique<Pattern>("--metric", options.metric);
  if (!options.keep.empty() && access((options.keep + "/.").c_str(), W_OK | X_OK) != 0)
    throw std::runtime_error("--keep: " + options.keep + ": " + std::strerror(errno));
  for (unsigned i = 0; i < options.rounds && !options.keep.empty(); ++i)
    for (const Side side : kSides)
      for (const char* const ending : {".out", ".err"})
        if (const std::string path = options.keep + "/" + kept_name(i, side) + ending;
            std::filesystem::exists(std::filesystem::symlink_status(path)))
          throw std::runtime_error("--keep: " + path + " exists");
}

Comparison Session::run() {
  try {
    warm_up();
    for (unsigned i = 0; i < options_.rounds && take_round(i); ++i) {
    }
  } catch (const Interrupted&) {           // take() below knows the signal
  } catch (const std::exception& error) {  // the complete rounds are not lost
    result_.failure = error.what();
  }
  progress_.clear();
  if (const int signal = signals_.take(); signal != 0) result_.interrupted = signal;
  return std::move(result_);
}

// The first run without custash's cache still goes through custash, which times the calls that
// the driver then gets. It may fail: only that time is missing then.
void Session::warm_up() {
  for (unsigned i = 0; i < options_.warmup; ++i) {
    const std::string number =
        "warm-up " + std::to_string(i + 1) + " of " + std::to_string(options_.warmup) + ", ";
    const Kind first = i == 0 && options_.against.empty() ? Kind::Uncached : Kind::Without;
    const std::optional<Run> run =
        take(first, number + names_[0] + (first == Kind::Uncached ? "'s cache" : ""), "");
    if (!run && first != Kind::Uncached) return;
    if (run && first == Kind::Uncached) result_.uncached = run->served;
    if (result_.interrupted != 0) return;
    if (!take(Kind::With, number + names_[1], "")) return tell_whose_fault();
  }
}

void Session::tell_whose_fault() {
  if (result_.failure.empty() || bare_is_well_) return;
  const std::string of_custash = std::exchange(result_.failure, "");
  const std::string said = std::exchange(result_.said, "");
  const bool well = take(Kind::Without, names_[0], "").has_value();
  if (!well && !result_.failure.empty()) {
    result_.failure =
        "the program fails " + names_[0] + ", too: " + why_ + " (-i compares it all the same)";
    return;
  }
  result_.failure = of_custash;
  if (well)
    result_.failure += options_.against.empty()
                           ? ". Without custash it ends well: see docs/troubleshooting.md."
                           : ". It ends well " + names_[0] + ".";
  result_.said = said;
}

// False where no more rounds follow.
bool Session::take_round(unsigned number) {
  if (!result_.failure.empty() || result_.interrupted != 0) return false;
  const std::string text =
      "round " + std::to_string(number + 1) + " of " + std::to_string(options_.rounds) + ", ";
  Round round;
  for (std::size_t i = 0; i < kSides.size(); ++i) {
    // In turn, so that what drifts (heat, clocks) meets both alike.
    const Side side = kSides.at((i + number) % kSides.size());
    const bool without = side == Side::Without;
    const std::optional<Run> run = take(without ? Kind::Without : Kind::With,
                                        text + names_.at(index_of(side)),
                                        kept_name(number, side));
    if (!run) {
      if (!without) tell_whose_fault();
      return false;
    }
    round.runs.at(index_of(side)) = *run;
  }
  result_.rounds.push_back(round);
  return true;
}

std::optional<Run> Session::take(Kind kind, const std::string& what, const std::string& kept) {
  show(what);
  const run::Folder folder;
  Start start = start_of(kind, launcher_text(folder));
  Output output = captures(kept);
  start.output = output.output.file();
  start.errors = output.errors.file();
  Sampler sampler(nvml_.get());
  Ended ended = run_child(start, signals_, sampler);
  ++done_;
  if (ended.interrupted != 0) {
    result_.interrupted = ended.interrupted;
    return std::nullopt;
  }
  const Reading reading;
  std::string why = objection(ended, output);
  if (why.empty() && kind != Kind::Uncached) why = read_metric(output, &ended.run);
  if (!why.empty()) {
    if (kind != Kind::Uncached) fail(what, why, output);
    return std::nullopt;
  }
  bare_is_well_ = bare_is_well_ || kind == Kind::Without;
  if (kind != Kind::Without) ended.run.served = served_in(folder);
  if (!kept.empty()) {
    compare_output(kind, std::move(output));
    result_.left_running = result_.left_running || ended.left_running;
  }
  return ended.run;
}

Start Session::start_of(Kind kind, const std::string& launcher) const {
  const bool bare = kind == Kind::Without && options_.against.empty();
  const Environment environment =
      bare ? without_custash(library_)
           : with_custash(library_,
                          options_.program.front(),
                          kind == Kind::Without ? options_.against : options_.conf);
  Start start;
  start.program = options_.program;
  start.timeout = options_.timeout;
  const std::string conf =
      join_conf({environment.conf, kind == Kind::Uncached ? "caching:never" : ""});
  start.environment = {{"LD_PRELOAD", environment.preload},
                       {"CUSTASH_CONF", conf},
                       {kLauncher, kind == Kind::Without ? "" : launcher}};
  for (const std::string& each : options_.with_env) {
    if (kind == Kind::Without) break;
    const auto end = each.find('=');
    start.environment.emplace_back(each.substr(0, end), each.substr(end + 1));
  }
  return start;
}

Session::Output Session::captures(const std::string& kept) const {
  if (kept.empty() || options_.keep.empty()) return {};
  const std::string path = options_.keep + "/" + kept;
  return {Capture(path + ".out"), Capture(path + ".err")};
}

std::string Session::objection(const Ended& ended, const Output& output) const {
  if (!output.output.has_room() || !output.errors.has_room())
    return "no room for the program's output: the disk is full (see TMPDIR and --keep)";
  if (ended.timed_out) return "it took longer than --timeout allows";
  if (ended.wants_terminal)
    return "it reads from the terminal, which it cannot have while it is measured";
  if (ended_well(ended.run.status) || options_.ignore_failure) return "";
  return status_text(ended.run.status);
}

std::string Session::read_metric(const Output& output, Run* run) const {
  if (metric_ == nullptr) return "";
  auto text = last_match(output.output.file(), *metric_);
  if (!text) text = last_match(output.errors.file(), *metric_);
  if (!text) return "--metric: no line of the output matches " + options_.metric;
  char* end = nullptr;
  run->metric = std::strtod(text->c_str(), &end);
  const bool is_number = end != text->c_str() && *end == '\0' && std::isfinite(*run->metric);
  return is_number ? "" : "--metric: '" + *text + "' is not a number";
}

void Session::compare_output(Kind kind, Output output) {
  if (!reference_) {
    reference_ = std::move(output);  // the first round begins without custash
    return;
  }
  auto& found = kind == Kind::Without ? result_.outputs.own : result_.outputs.changed;
  if (!found)
    found = first_difference(reference_->output.file(), output.output.file(), ignored_);
}

void Session::show(const std::string& what) {
  constexpr std::size_t kSidesOfRound = 2;
  progress_.show(what, done_, (options_.warmup + options_.rounds) * kSidesOfRound);
}

void Session::fail(const std::string& what, const std::string& why, const Output& output) {
  constexpr std::size_t kShown = 2000;
  result_.failure = what + ": " + why;
  why_ = why;
  const std::string said = output.output.tail(kShown) + output.errors.tail(kShown);
  result_.said = said.empty() ? "(it wrote nothing)\n" : said;
}

}  // namespace custash::compare
