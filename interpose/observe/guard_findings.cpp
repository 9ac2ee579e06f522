// SPDX-License-Identifier: MIT
#include "interpose/observe/guard_findings.hpp"

#include "allocator/base/log.hpp"
#include "interpose/observe/snapshot.hpp"
#include "interpose/process/output_file.hpp"
#include "interpose/process/ranked_mutex.hpp"

#include <vector>

#include <unistd.h>

namespace custash::guards {
namespace {

constexpr std::size_t kMostFindings = 1000;

constinit RankedMutex findings_mutex{HookRank::GuardFindings};
const Config* settings = nullptr;  // lives as long as the process
void (*complain)(const std::string& line) = nullptr;

struct Found {
  std::string path;  // of the file, once it is chosen
  std::vector<std::string> json;
  std::size_t count = 0;
};

Found& found() REQUIRES(findings_mutex) {
  static auto* const made = new Found;
  return *made;
}

std::string document(const std::string& program) REQUIRES(findings_mutex) {
  JsonWriter out;
  out.open('{');
  out.text_member("format", "custash guard report 1");
  out.member("pid", static_cast<std::int64_t>(getpid()));
  out.text_member("program", program);
  out.member("found", found().count);
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
  if (settings->guard_report.empty()) return;
  const std::string program = snapshot::command_line();
  std::string path;
  std::string text;
  {
    const RankedLock lock(findings_mutex);
    path = found().path;
    text = document(program);
  }
  std::string why;
  if (path.empty()) {  // another process of this program may have written there
    path = settings->guard_report;
    if (access(path.c_str(), F_OK) == 0) path += "." + std::to_string(getpid());
  }
  if (!output::write(path, text, output::Kind::GuardReport, output::Replace::Own, &why))
    return complain("custash: guard_report:" + path + ": " + why);
  const RankedLock lock(findings_mutex);
  found().path = path;
}

}  // namespace

void begin_findings(const Config& config, void (*say)(const std::string& line)) {
  settings = &config;
  complain = say;
}

void tell(const GuardFinding& finding) {
  JsonWriter json;
  write_json(finding, &json);
  {
    const RankedLock lock(findings_mutex);
    ++found().count;
    if (found().count > kMostFindings) return;
    found().json.push_back(json.take());
  }
  if (finding.source != Source::Slack) {  // of which the core has logged a line
    std::string line = std::string("event=guard_") + name_of(finding.source);
    if (!finding.suspects.empty())
      line += std::string(" kind=") + name_of(finding.suspects.front().kind);
    line += " suspects=" + std::to_string(finding.suspects.size());
    if (finding.error != 0) line += " error=" + std::to_string(finding.error);
    log(LogLevel::Error, line);
  }
  if (settings->guard_show) {
    const std::string text = text_of(finding);
    complain(text.substr(0, text.size() - 1));
  }
  write_file();
}

void warn(const std::string& line) {
  log(LogLevel::Warn, "event=guard_warning reason=\"" + line + "\"");
  if (settings->guard_show) complain("custash: guard: " + line);
}

void end_findings() {
  write_file();
  if (!settings->guard_show) return;
  std::size_t count = 0;
  {
    const RankedLock lock(findings_mutex);
    count = found().count;
  }
  complain("custash: guard: " + (count == 0 ? "nothing" : std::to_string(count)) + " found");
}

void reset_findings_after_fork() noexcept {
  findings_mutex.reset_after_fork();
}

}  // namespace custash::guards
