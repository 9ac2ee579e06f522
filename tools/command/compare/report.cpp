// SPDX-License-Identifier: MIT
#include "tools/command/compare/report.hpp"

#include "interpose/api/custash.h"
#include "interpose/process/printable.hpp"
#include "tools/command/compare/counters.hpp"
#include "tools/command/compare/rows.hpp"
#include "tools/command/compare/session.hpp"
#include "tools/command/run/tell.hpp"
#include "tools/text.hpp"

#include <algorithm>
#include <cmath>

namespace custash::compare {
namespace {

using run::counted;

std::string time_of(std::int64_t nanoseconds) {
  std::string out;
  const double seconds = static_cast<double>(nanoseconds) / 1e9;
  seconds < 1 ? add(out, "%.2f ms", seconds * 1000) : add(out, "%.2f s", seconds);
  return out;
}

std::string program_of(const CommandOptions& options) {
  std::string out;
  for (const std::string& word : options.program)
    out += (out.empty() ? "" : " ") + word;
  return out;
}

std::string setting_of(const CommandOptions& options, const Comparison& comparison) {
  std::string out = counted(static_cast<std::int64_t>(comparison.rounds.size()), "round");
  if (comparison.rounds.size() < options.rounds)
    out += " (of " + std::to_string(options.rounds) + ")";
  const auto sides = names_of(options);
  out += options.against.empty() ? ", each one run without and one with custash"
                                 : ", each one run " + sides[0] + " and one " + sides[1];
  if (options.warmup > 0)
    out += "; before them " + counted(options.warmup, "warm-up") + " of each";
  return out + (comparison.interrupted == 0 ? "" : "; interrupted");
}

std::string subject_of(const CommandOptions& options,
                       const Comparison& comparison,
                       const std::string& date) {
  std::string out = "custash " + version_text();
  if (!options.conf.empty() && options.against.empty()) out += " with " + options.conf;
  for (const std::string& each : options.with_env)
    out += ", " + each;
  if (!comparison.gpu.empty())
    out += "; " + comparison.gpu;
  else if (comparison.simulated)
    out += "; simulated driver";
  return out + "; " + date;
}

std::vector<std::string> facts_of(const Report& report) {
  const Served& served = *report.served;
  std::vector<std::string> out;
  std::string line = "served: " + counted(served.allocations, "allocation") + ", " +
                     counted(served.frees, "free");
  if (served.pinned_allocations > 0)
    line += "; pinned: " + counted(served.pinned_allocations, "allocation") + ", " +
            counted(served.pinned_frees, "free");
  if (served.unknown == 0 || served.calls() > 0) out.push_back(line);
  const std::string share = passed::share_text(served.passed,
                                               static_cast<std::uint64_t>(served.allocations),
                                               static_cast<Bytes>(served.requested_bytes));
  if (!share.empty()) out.push_back(share);
  if (served.unknown > 0)
    out.push_back("counters are missing from " + std::to_string(served.unknown) + " of " +
                  std::to_string(served.processes) + " processes, which did not end by exit");
  if (served.calls() == 0) return out;
  const std::int64_t avoided = served.calls() - served.calls_made();
  out.push_back("driver calls: " + run::grouped(std::abs(avoided)) +
                (avoided < 0 ? " more" : " avoided") + "; custash made " +
                run::grouped(served.calls_made()) + " instead of " +
                run::grouped(served.calls()));
  out.push_back("frees that did not wait: " + run::grouped(served.frees - served.free_waits) +
                " of " + run::grouped(served.frees));
  if (report.saved)
    out.push_back("time in the driver for memory: " + time_of(std::abs(*report.saved)) +
                  (*report.saved < 0 ? " more" : " saved") +
                  ", by what the calls took in a warm-up; custash spent " +
                  time_of(static_cast<std::int64_t>(served.driver_time)));
  out.push_back("peak in use " + human(static_cast<Bytes>(served.peak_in_use)) +
                ", peak held " + human(static_cast<Bytes>(served.peak_reserved)));
  return out;
}

// At most 60 bytes of a line, from a place shortly before the byte `differs` on.
std::string quoted(std::string_view line, std::size_t differs) {
  constexpr std::size_t kMost = 60;
  constexpr std::size_t kBefore = 20;
  if (line.empty()) return "no such line";
  if (line.back() == '\n') line.remove_suffix(1);
  const std::size_t from =
      line.size() <= kMost || differs < kMost ? 0 : cut(line, differs - kBefore).size();
  line.remove_prefix(from);
  const std::string_view shown = cut(line, kMost);
  return std::string(from == 0 ? "'" : "'...") + std::string(shown) +
         (shown.size() < line.size() ? "...'" : "'");
}

std::string difference_text(const Difference& difference) {
  const std::string& before = difference.before;
  const std::string& after = difference.after;
  const auto [one, other] =
      std::mismatch(before.begin(), before.end(), after.begin(), after.end());
  const auto differs = static_cast<std::size_t>(one - before.begin());
  const std::string out = "first in line " + std::to_string(difference.line) + ": ";
  if (differs > 0 && (before + "\n" == after || after + "\n" == before))
    return out + quoted(after, 0) + " has an end of line in one of the two runs only";
  return out + quoted(before, differs) + " / " + quoted(after, differs);
}

void check_output(const CommandOptions& options, const Comparison& comparison, Report* report) {
  const Outputs& outputs = comparison.outputs;
  if (outputs.own) {
    report->checks.push_back("standard output: the program's own runs differ, " +
                             difference_text(*outputs.own));
    report->checks.emplace_back(
        "--ignore REGEX leaves lines out, so that the rest is compared");
  } else if (outputs.changed) {
    report->same = false;
    report->checks.push_back("standard output: differs " + report->sides[1] + ", " +
                             difference_text(*outputs.changed));
    if (comparison.rounds.size() < 2)
      report->checks.emplace_back(
          "one round does not show whether the program's own runs differ");
  } else {
    report->checks.emplace_back(std::string("standard output: the same in all runs") +
                                (options.ignore.empty() ? "" : ", without the ignored lines"));
  }
}

// "exit status 0 in all 4"; each where they differ.
std::string statuses(const std::vector<Round>& rounds, Side side) {
  std::vector<std::string> all;
  for (const Round& round : rounds)
    all.push_back(status_text(round.of(side).status));
  if (std::all_of(all.begin(), all.end(), [&](const auto& each) { return each == all[0]; }))
    return all[0] + (all.size() == 1 ? "" : " in all " + std::to_string(all.size()));
  std::string out;
  for (const std::string& each : all)
    out += (out.empty() ? "" : ", ") + each;
  return out;
}

void check_status(const std::vector<Round>& rounds, Report* report) {
  const int first = rounds.front().of(Side::Without).status;
  const auto all = [&](Side side) {
    return std::all_of(rounds.begin(), rounds.end(), [&](const Round& round) {
      return round.of(side).status == first;
    });
  };
  const bool own = all(Side::Without);
  if (own && all(Side::With)) {
    report->checks.push_back("end: " + status_text(first) + " in all runs");
    return;
  }
  report->same = report->same && !own;
  std::string text =
      "end: " + (own ? "differs " + report->sides[1] : "the program's own runs differ");
  for (const Side side : kSides)
    text += (side == Side::Without ? "; without: " : "; with: ") + statuses(rounds, side);
  report->checks.push_back(text);
}

void add_counters(const Comparison& comparison, Report* report) {
  std::vector<Served> all;
  for (const Round& round : comparison.rounds)
    all.push_back(round.of(Side::With).served);
  report->served = median_of(all);
  report->saved = time_saved(comparison.uncached, *report->served);
  // The warm-up may have been slower than the runs. No more can be saved than they took.
  constexpr double kSecond = 1e9;
  if (report->saved)
    report->saved =
        std::min(*report->saved,
                 static_cast<std::int64_t>(report->rows.front().spreads[0].median * kSecond));
  report->facts = facts_of(*report);
}

void add_verdicts(const CommandOptions& options, const Comparison& comparison, Report* report) {
  bool gain = false;
  for (const Row& row : report->rows) {
    const bool is_metric = row.unit == Unit::Plain;
    if (!is_metric && row.name != "wall time") continue;
    const bool higher = is_metric && options.metric_higher;
    report->verdicts.push_back(verdict_of(row, higher, report->sides[1]));
    gain = gain || is_gain(row, higher);
  }
  if (const Row* const memory = memory_row(report->rows))
    if (const std::string verdict = memory_verdict(*memory, report->sides[1]);
        !verdict.empty()) {
      report->verdicts.push_back(verdict);
      gain = gain || is_gain(*memory, false);
    }
  if (!options.against.empty()) return;  // the rest is about custash against none
  Observed seen{*report->served,
                comparison.uncached,
                report->rows.front().spreads[0].median,
                std::nullopt,
                std::nullopt};
  if (const Row* const memory = memory_row(report->rows)) {
    seen.memory_without = memory->spreads[0].median;
    seen.memory_with = memory->spreads[1].median;
  }
  if (const std::string why = why_no_gain(seen); !gain && !why.empty())
    report->verdicts.push_back(why);
  report->advice = advice_for(seen);
}

}  // namespace

Report report_of(const CommandOptions& options,
                 const Comparison& comparison,
                 const std::string& date) {
  Report report;
  report.subject = subject_of(options, comparison, date);
  report.sides = names_of(options);
  report.ratio = options.against.empty() ? "without / with" : "first / second";
  report.program = program_of(options);
  report.setting = setting_of(options, comparison);
  if (comparison.rounds.empty()) return report;
  report.rows = rows_of(options, comparison.rounds);
  add_counters(comparison, &report);
  add_verdicts(options, comparison, &report);
  check_output(options, comparison, &report);
  check_status(comparison.rounds, &report);
  if (memory_source(comparison.rounds) == MemorySource::Devices)
    report.warnings.emplace_back(
        "NVML does not list the program's processes here. Peak device memory is what all "
        "devices held above their idle level.");
  if (memory_source(comparison.rounds) == MemorySource::None && report.served->processes > 0)
    report.warnings.emplace_back(
        "Peak device memory is unknown: NVML is not installed, or it showed no rise.");
  if (comparison.left_running)
    report.warnings.emplace_back(
        "A process that the program had started still ran at its end. It may disturb the runs "
        "that follow, and its counters are missing.");
  if (std::string idle = idle_warning(comparison.rounds); !idle.empty())
    report.warnings.push_back(std::move(idle));
  if (comparison.simulated)
    report.warnings.emplace_back(
        "The driver is simulated. It runs no kernels, so these times say nothing about a GPU.");
  return report;
}

std::string version_text() {
  return std::to_string(CUSTASH_VERSION_MAJOR) + "." + std::to_string(CUSTASH_VERSION_MINOR) +
         "." + std::to_string(CUSTASH_VERSION_PATCH);
}

std::string shown(double value, const Row& row) {
  std::string out;
  if (row.unit == Unit::Bytes) return human(static_cast<Bytes>(value));
  if (row.unit == Unit::Plain) {
    add(out, "%.6g", value);
    return out;
  }
  constexpr double kMilli = 1e-3;
  const double scale = std::max(row.spreads[0].median, row.spreads[1].median);
  if (scale < 1)
    add(out, "%.1f ms", value / kMilli);
  else
    add(out, "%.3f s", value);
  return out;
}

std::string shown_ratio(double ratio) {
  std::string out;
  if (!std::isfinite(ratio)) return "-";
  add(out, "%.2f x", ratio);
  return out;
}

}  // namespace custash::compare
