// SPDX-License-Identifier: MIT
#include "interpose/check/guard_findings.hpp"

#include "allocator/base/log.hpp"
#include "allocator/base/thread.hpp"
#include "interpose/check/checked.hpp"
#include "interpose/history/ledger_book.hpp"
#include "interpose/history/snapshot.hpp"
#include "interpose/process/output_text.hpp"
#include "interpose/process/quietly.hpp"
#include "interpose/process/ranked_mutex.hpp"
#include "interpose/reports/launcher.hpp"

#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <vector>

#include <unistd.h>

namespace custash::guards {
namespace {

constexpr std::size_t kMostFindings = 1000;

constinit RankedMutex findings_mutex{HookRank::GuardFindings};
const Config* settings = nullptr;  // lives as long as the process
void (*complain)(const std::string& line) = nullptr;

// In a forked child, and where no launcher waits. Order: none, counts.
constinit ledger::Checks own_sums{};
constinit std::atomic<ledger::Checks*> sums{&own_sums};

struct Found {
  std::string path;  // of the file, once it is chosen
  std::vector<std::string> json;
  std::string unprinted;
  std::string unchecked;
};

Found& found() REQUIRES(findings_mutex) {
  static auto* const made = new Found;
  return *made;
}

void count(std::uint64_t ledger::Checks::*what) noexcept {
  std::atomic_ref(sums.load()->*what).fetch_add(1, std::memory_order_relaxed);
}

Checked checked() {
  Checked out{.memory = settings->guard.any(), .streams = settings->check_streams};
  out.sums = *sums.load();
  const RankedLock lock(findings_mutex);
  out.unchecked = found().unchecked;
  return out;
}

std::string document(const std::string& program, const Checked& now) REQUIRES(findings_mutex) {
  JsonWriter out;
  out.open('{');
  out.text_member("format", "custash guard report 2");
  out.member("pid", static_cast<std::int64_t>(getpid()));
  out.text_member("program", program);
  out.member("time_us", ledger::clock_now() / 1000);
  out.member("found", now.sums.found);
  out.text_member("checked", text_of(now));
  out.key("findings");
  std::string text = out.take() + "[";
  const char* before = "\n";
  for (const std::string& each : found().json) {
    text += before + each;
    before = ",\n";
  }
  return text + "]}\n";
}

// Each time the whole file: the process may end at any moment.
void write_file() {
  if (settings->guard_report.empty() || settings->guard_report == "-") return;
  const std::string program = snapshot::command_line();
  const Checked now = checked();
  std::string path;
  std::string text;
  {
    const RankedLock lock(findings_mutex);
    path = found().path;
    text = document(program, now);
  }
  std::string why;
  const bool first = path.empty();
  if (first) path = settings->guard_report;
  // The first time another process, or somebody else, may have a file there.
  const bool written =
      first ? output::write_beside_others(&path, text, getpid(), &why)
            : output::write(path, text, output::Kind::GuardReport, output::Replace::Own, &why);
  if (!written) return complain("custash: guard_report:" + path + ": " + why);
  launcher::note(&ledger::Header::findings_path, path);
  const RankedLock lock(findings_mutex);
  found().path = path;
}

// Each line with "custash: guard: " before it is complete; the last line break is left out.
void print(std::string text) {
  if (text.empty()) return;
  text.pop_back();
  complain(text);
}

}  // namespace

void begin_findings(const Config& config, void (*say)(const std::string& line)) {
  settings = &config;
  complain = say;
  if (launcher::shows_findings()) sums.store(&ledger::book()->head->checks);
  if (config.guard.any() && config.caching == Caching::Never) note_unchecked("caching:never");
}

void report(const GuardFinding& finding) {
  const CancellationOff off;
  JsonWriter json;
  write_json(finding, &json);
  const bool later = launcher::shows_findings();
  const std::string text = settings->guard_show ? text_of(finding) : "";
  count(&ledger::Checks::found);
  {
    const RankedLock lock(findings_mutex);
    if (found().json.size() == kMostFindings) return;
    found().json.push_back(json.take());
    if (later) found().unprinted += text;
  }
  if (finding.source != Source::Slack) {  // of which the core has logged a line
    std::string line = std::string("event=guard_") + name_of(finding.source);
    if (!finding.suspects.empty()) {
      const Suspect& first = finding.suspects.front();
      char where[64];
      (void)std::snprintf(where,
                          sizeof where,
                          " address=%#" PRIx64 " bytes=%" PRIu64,
                          first.block.address,
                          first.block.bytes);
      line += std::string(" kind=") + name_of(first.kind) + where;
    }
    line += " suspects=" + std::to_string(finding.suspects.size());
    if (finding.error != 0) line += " error=" + std::to_string(finding.error);
    log(LogLevel::Error, line);
  }
  if (!later) print(text);
  write_file();
}

void warn(const std::string& line) {
  log(LogLevel::Warn, "event=guard_warning reason=\"" + line + "\"");
  if (settings->guard_show) complain("custash: guard: " + line);
}

void count_block(bool guarded, const std::string& why) {
  count(guarded ? &ledger::Checks::guarded : &ledger::Checks::unguarded);
  if (!why.empty()) note_unchecked(why);
}

void count_use() noexcept {
  count(&ledger::Checks::uses);
}

void note_unchecked(const std::string& why) {
  launcher::note(&ledger::Header::unchecked, why);
  const RankedLock lock(findings_mutex);
  if (found().unchecked.empty()) found().unchecked = why;
}

void end_findings() {
  write_file();
}

void print_findings() noexcept {
  if (settings == nullptr || !settings->guard_show ||
      launcher::takes(launcher::Report::Findings))
    return;
  quietly([] {
    std::string text;
    {
      const RankedLock lock(findings_mutex);
      text = std::move(found().unprinted);
    }
    print(std::move(text));
    complain("custash: guard: " + text_of(checked()));
  });
}

void reset_findings_after_fork() noexcept {
  findings_mutex.reset_after_fork();
  sums.store(&own_sums);
}

}  // namespace custash::guards
