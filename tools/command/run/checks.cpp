// SPDX-License-Identifier: MIT
#include "tools/command/run/checks.hpp"

#include "interpose/process/output_text.hpp"
#include "tools/command/run/tell.hpp"
#include "tools/command/snapshot/forms.hpp"
#include "tools/command/snapshot/found.hpp"
#include "tools/command/snapshot/named.hpp"

#include <algorithm>
#include <cstdio>

namespace custash::run {
namespace {

void add_sums(const guards::Checked& one, guards::Checked* all) {
  all->sums.found += one.sums.found;
  all->sums.guarded += one.sums.guarded;
  all->sums.unguarded += one.sums.unguarded;
  all->sums.uses += one.sums.uses;
  all->suppressed += one.suppressed;
  if (all->unchecked.empty()) all->unchecked = one.unchecked;
}

void write_report(const std::string& path, snapshot::Json report, const guards::Checked& now) {
  report["found"] = now.sums.found;
  report["checked"] = guards::text_of(now);
  std::string why;
  if (!output::write(path,
                     snapshot::json_of(report) + "\n",
                     output::Kind::GuardReport,
                     output::Replace::Own,
                     &why))
    tell(shown(path) + ": not written: " + why);
}

}  // namespace

Checks::Checks(const Wanted& wanted)
    : wanted_(wanted), all_{.memory = wanted.memory, .streams = wanted.streams} {
}

void Checks::add(const ledger::Copy& copy) {
  if (!wanted_.checks()) return;
  guards::Checked one = {.sums = copy.head.checks,
                         .memory = wanted_.memory,
                         .streams = wanted_.streams,
                         .unchecked = text_of(copy, copy.head.unchecked)};
  const std::string path = text_of(copy, copy.head.findings_path);
  if (path.empty() && one.sums.found != 0) tell("the checkers' report was not written");
  if (!path.empty()) {
    try {
      snapshot::Json report = snapshot::parse_json(path, snapshot::read_bytes(path), {});
      snapshot::tell_of_libdw(snapshot::name_findings(&report, names::Servers::Ask));
      one.suppressed = snapshot::suppress(&report, wanted_.suppressions);
      one.sums.found -= std::min<std::uint64_t>(one.sums.found, one.suppressed);
      std::fputs(snapshot::findings_text(report).c_str(), stderr);
      if (!wanted_.json.empty()) write_report(path, std::move(report), one);
      written_ = true;
    } catch (const std::exception& error) {
      tell(error.what());
    }
  }
  add_sums(one, &all_);
}

void Checks::leave_out(pid_t process) {
  if (all_.unchecked.empty())
    all_.unchecked = "process " + std::to_string(process) + " reports itself";
}

bool Checks::close(const Ended& ended) {
  if (!wanted_.checks() || !has_started(ended)) return true;
  if (all_.unchecked.empty() && !wanted_.off.empty()) all_.unchecked = wanted_.off;
  tell("guard: " + guards::text_of(all_));
  if (!wanted_.json.empty() && !written_)
    write_report(wanted_.json,
                 {{"format", "custash guard report 2"},
                  {"pid", ended.process},
                  {"program", wanted_.program},
                  {"time_us", ledger::clock_now() / 1000},
                  {"findings", snapshot::Json::array()}},
                 all_);
  return all_.sums.found == 0 && all_.any();
}

}  // namespace custash::run
