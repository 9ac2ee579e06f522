// SPDX-License-Identifier: MIT
// Session: the runs of one comparison, in turn, and what each has shown.
#pragma once

#include "tools/command/compare/capture.hpp"
#include "tools/command/compare/child.hpp"
#include "tools/command/compare/command.hpp"
#include "tools/command/compare/lines.hpp"
#include "tools/command/compare/result.hpp"
#include "tools/progress.hpp"

#include <array>
#include <deque>
#include <memory>
#include <optional>
#include <string>

namespace custash::compare {

class Session {
 public:
  // `library` is libcustash.so. Throws where an option is wrong.
  Session(const CommandOptions& options, std::string library);

  // Until all rounds are done, a run fails or a signal comes.
  Comparison run();

 private:
  enum class Kind { Without, With, Uncached };

  struct Output {
    Capture output;
    Capture errors;
  };

  void warm_up();
  // A run with custash has failed. Says whether the program fails without it, too.
  void tell_whose_fault();
  bool take_round(unsigned number);
  std::optional<Run> take(Kind kind, const std::string& what, const std::string& kept);
  [[nodiscard]] Start start_of(Kind kind, const std::string& launcher) const;
  Output captures(const std::string& kept) const;
  // Why the run cannot count; empty where it can.
  std::string objection(const Ended& ended, const Output& output) const;
  std::string read_metric(const Output& output, Run* run) const;
  void compare_output(Kind kind, Output output);
  void show(const std::string& what);
  void fail(const std::string& what, const std::string& why, const Output& output);

  const CommandOptions& options_;
  const std::string library_;
  const std::array<std::string, 2> names_;  // by Side
  std::deque<Pattern> patterns_;            // of --ignore
  Patterns ignored_;
  std::unique_ptr<Pattern> metric_;
  std::unique_ptr<Nvml> nvml_;
  HeldSignals signals_;
  Progress progress_;
  unsigned done_ = 0;                // runs
  bool bare_is_well_ = false;        // a run without custash has ended as it should
  std::string why_;                  // the run that failed last did
  std::optional<Output> reference_;  // of the first run without custash
  Comparison result_;
};

// What the two sides are called: "without custash" and "with custash", or by their options.
std::array<std::string, 2> names_of(const CommandOptions& options);

// "exit status 3", "SIGSEGV".
std::string status_text(int status);

}  // namespace custash::compare
