// SPDX-License-Identifier: MIT
#include "tools/command/run/reports.hpp"

#include "interpose/history/leak_text.hpp"
#include "interpose/process/file_name.hpp"
#include "interpose/process/output_text.hpp"
#include "interpose/reports/summary.hpp"
#include "tools/command/run/checks.hpp"
#include "tools/command/run/folder.hpp"
#include "tools/command/run/tell.hpp"
#include "tools/command/snapshot/command.hpp"
#include "tools/command/snapshot/forms.hpp"
#include "tools/command/snapshot/named.hpp"
#include "tools/command/snapshot/sites.hpp"
#include "tools/output_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

namespace custash::run {
namespace {

struct Left {
  LedgerName name;
  ledger::Copy copy;
  std::string ended_by;
  std::string history;    // the report's file
  bool is_first = false;  // of those with this name
};

// The kernel says which files a process has mapped: after an exec, or its end, none of ours.
bool is_in_use(const LedgerName& ledger) {
  std::ifstream maps("/proc/" + std::to_string(ledger.process) + "/maps");
  for (std::string line; std::getline(maps, line);)
    if (line.size() >= ledger.path.size() &&
        line.compare(line.size() - ledger.path.size(), std::string::npos, ledger.path) == 0)
      return true;
  return false;
}

// Processes that were signalled together end a moment after each other.
std::vector<LedgerName> ledgers_at_rest(const Folder& folder) {
  constexpr int kAttempts = 25;
  constexpr timespec kNap{0, 20'000'000};
  for (int i = 0;; ++i) {
    std::vector<LedgerName> all = folder.ledgers();
    const bool waits = std::any_of(all.begin(), all.end(), [](const LedgerName& each) {
      return each.ending.empty() && is_in_use(each);
    });
    if (!waits || i == kAttempts) return all;
    nanosleep(&kNap, nullptr);
  }
}

std::string how_it_ended(const LedgerName& ledger,
                         const std::vector<LedgerName>& all,
                         const Ended& ended) {
  if (ledger.ending == ledger::kDone) return "";
  for (const LedgerName& other : all)
    if (other.process == ledger.process && other.program > ledger.program) return "exec";
  if (ledger.process != ended.process) return "a signal or _exit";
  return WIFSIGNALED(ended.status) ? signal_name(WTERMSIG(ended.status)) : "_exit or exec";
}

constexpr const char* kReportedItself =
    " has reported itself, since it could not share memory with the command";

// A process that has taken its ledger back, or finds it gone, reports at its own exit.
bool leaves_it_to_itself(const LedgerName& ledger) {
  const std::string process = "process " + std::to_string(ledger.process);
  if (ledger.ending == ledger::kOwn) {
    tell(process + kReportedItself);
    return true;
  }
  if (!ledger.ending.empty() || !is_in_use(ledger) || unlink(ledger.path.c_str()) != 0)
    return false;
  tell(process + " still runs; it reports itself when it exits");
  return true;
}

std::string numbered(const std::string& path, const LedgerName& ledger, int n) {
  std::string mark;
  for (const int number : {ledger.process, n}) {
    if (number == 0) continue;
    mark += '.';
    mark += std::to_string(number);
  }
  return output::with_mark(path, mark);
}

// Beside what is there: no user typed these names. Throws; gives the name that was free.
std::string write_beside_others(const std::string& path,
                                const LedgerName& ledger,
                                const std::string& text) {
  std::string why;
  const std::string beside = output::write_beside(path, text, &why);
  std::string to = numbered(path, ledger, 0);
  constexpr int kMost = 1000;
  for (int n = 1; !beside.empty() && !output::move_to_free(beside, to); ++n) {
    if (errno != EEXIST || n == kMost) {
      why = std::strerror(errno);
      (void)unlink(beside.c_str());
      break;
    }
    to = numbered(path, ledger, n);
  }
  if (!why.empty()) throw snapshot::BadSnapshot(shown(path) + ": not written: " + why);
  return to;
}

// The name that the report was given. What hours have gathered is not lost where its place has
// become full or has gone: it then goes to the folder for temporary files.
std::string write_report(const Left& left,
                         const Wanted& wanted,
                         const std::string& path,
                         const std::string& text) {
  try {
    if (!left.is_first) return write_beside_others(path, left.name, text);
    write_output({path, snapshot::kind_of(path), wanted.force, false}, text);
    return path;
  } catch (const std::runtime_error& error) {
    tell(error.what());
    const std::filesystem::path name = std::filesystem::path(path).filename();
    return write_beside_others(std::filesystem::temp_directory_path() / name, left.name, text);
  }
}

void write_history(const Left& left,
                   const Wanted& wanted,
                   const snapshot::Json& json,
                   const snapshot::Snapshot& taken) {
  const snapshot::Form form = snapshot::form_of(wanted.history);
  const std::string text = snapshot::text_of(json, form);
  const std::string to = write_report(left, wanted, left.history, text);
  std::int64_t allocations = 0;
  for (const history::Site& site : taken.history.sites)
    allocations += site.allocations;
  std::string line = written(to, text.size(), counted(allocations, "allocation"));
  if (form == snapshot::Form::Html) line += "; open it in a browser";
  tell(line);
  if (!left.ended_by.empty())
    tell(left.ended_by +
         " ended the program: the report's map of memory is made from its history");
}

void print_summary(const Left& left, const snapshot::Snapshot& taken) {
  if (!left.ended_by.empty())
    tell(left.ended_by + " ended the program: peaks and waits may lack its last 10 ms");
  std::vector<custash_device_stats_t> devices;
  for (const snapshot::DeviceState& device : taken.devices)
    devices.push_back(device.stats);
  const ledger::Counters* const counters = counters_of(left.copy);
  const passed::PassedCounts passed =
      counters == nullptr ? passed::PassedCounts{} : counters->passed;
  std::fputs(summary_text(devices, passed).c_str(), stderr);
}

// The call site with the most memory when most was in use; empty where none is known.
std::string largest_site(const snapshot::Json& json) {
  const snapshot::Json* largest = nullptr;
  const auto bytes = [](const snapshot::Json& site) {
    return site.at("at_peak_bytes").get<std::int64_t>();
  };
  for (const snapshot::Json& site : json.at("history").at("sites"))
    if (site.at("memory") == "device" && site.at("stack").get<std::int64_t>() >= 0 &&
        bytes(site) > (largest == nullptr ? 0 : bytes(*largest)))
      largest = &site;
  if (largest == nullptr) return "";
  const snapshot::Json& stack = json.at("stacks").at(largest->at("stack").get<std::size_t>());
  if (stack.empty()) return "";
  return leaks::size_text(bytes(*largest)) + " of the peak allocated by " +
         text_of(snapshot::frame_of(json.at("frames").at(stack.front().get<std::size_t>())));
}

void tell_why_memory_ran_out(const Left& left,
                             const snapshot::Snapshot& taken,
                             const snapshot::Json* json) {
  std::string line = text_of(left.copy, left.copy.head.oom_reason);
  if (line.empty()) return;
  const std::string site = json == nullptr ? "" : largest_site(*json);
  if (!site.empty()) line += "; " + site;
  std::int64_t times = 0;
  for (const snapshot::DeviceState& device : taken.devices)
    times += device.stats.num_ooms;
  if (times > 1) line += "; the first of " + grouped(times) + " times";
  tell(line);
}

// The report of the moment when memory ran out, beside the other one.
void write_oom(const Left& left, const Wanted& wanted) {
  const std::string path = text_of(left.copy, left.copy.head.oom_path);
  if (path.empty()) return;
  snapshot::Json json = snapshot::parse_snapshot(path, snapshot::read_bytes(path));
  snapshot::tell_of_libdw(snapshot::name_frames(&json, names::Servers::Ask));
  const snapshot::Form form = snapshot::form_of(wanted.history);
  const std::string to = write_report(
      left, wanted, output::with_mark(left.history, ".oom"), snapshot::text_of(json, form));
  tell(shown(to) + " written when memory ran out");
}

// How many call sites are left.
std::size_t print_leaks(const Left& left, const Wanted& wanted, snapshot::Json json) {
  const std::size_t suppressed = snapshot::suppress_sites(&json, wanted.suppressions);
  const std::string title = left.ended_by.empty()
                                ? "still allocated at exit"
                                : "still allocated when " + left.ended_by + " ended it";
  constexpr unsigned kMost = 20;
  std::fputs(snapshot::leaks_text(json, title, kMost).c_str(), stderr);
  if (suppressed != 0)
    tell(counted(static_cast<std::int64_t>(suppressed), "call site") + " suppressed");
  return snapshot::live_sites(json).size();
}

// False where it has leaks.
bool report_one(const Left& left, const Wanted& wanted, Checks* checks) {
  const snapshot::Snapshot taken = snapshot_of(left.copy, left.ended_by);
  checks->add(left.copy);
  std::size_t leaked = 0;
  if (wanted.summary) print_summary(left, taken);
  if (left.copy.head.partial != 0)
    tell("the memory for the report could not grow: what process " +
         std::to_string(left.name.process) + " did after that is not in its report");
  if (wanted.history.empty() && !wanted.leaks) {
    tell_why_memory_ran_out(left, taken, nullptr);
    return true;
  }
  snapshot::Json json = snapshot::parse_snapshot(left.name.path, snapshot::as_json(taken));
  snapshot::tell_of_libdw(snapshot::name_frames(&json, names::Servers::Ask));
  if (wanted.leaks) leaked = print_leaks(left, wanted, json);
  if (!wanted.history.empty()) write_history(left, wanted, json, taken);
  tell_why_memory_ran_out(left, taken, &json);
  if (!wanted.history.empty()) write_oom(left, wanted);
  return leaked == 0;
}

// The first one of a name gets the requested name.
void name_reports(std::vector<Left>* all, const std::string& name) {
  std::set<std::string> taken;
  for (Left& left : *all) {
    file_name::Parts parts{std::nullopt, file_name::own_host(), left.name.process};
    if (left.copy.head.rank >= 0) parts.rank = left.copy.head.rank;
    left.history = file_name::filled(name, parts);
    left.is_first = taken.insert(left.history).second;
  }
}

}  // namespace

Outcome report(const Folder& folder, const Wanted& wanted, const Ended& ended) {
  const std::vector<LedgerName> all = ledgers_at_rest(folder);
  Outcome out{.used_cuda = !all.empty(), .passed = !all.empty()};
  Checks checks(wanted);
  std::vector<Left> reported;
  for (const LedgerName& name : all) {
    if (leaves_it_to_itself(name)) {
      checks.leave_out(name.process);
      continue;
    }
    LedgerName now = name;
    if (now.ending.empty() && access(now.path.c_str(), F_OK) != 0) {  // it has just ended
      now.ending = ledger::kDone;
      now.path += now.ending;
    }
    std::optional<ledger::Copy> copy;
    try {
      copy = read_ledger(now.path);
    } catch (const std::exception&) {  // it is damaged: more than there is memory for
    }
    if (copy && copy->head.own != 0) {
      checks.leave_out(name.process);
      tell("process " + std::to_string(name.process) + kReportedItself);
    } else if (copy)
      reported.push_back({now, std::move(*copy), how_it_ended(now, all, ended), {}});
    else
      tell("process " + std::to_string(name.process) + " left nothing that can be read");
  }
  std::stable_sort(reported.begin(), reported.end(), [](const Left& a, const Left& b) {
    return a.copy.head.started < b.copy.head.started;
  });
  name_reports(&reported, wanted.history);
  for (const Left& left : reported) {
    if (reported.size() > 1)
      tell("process " + std::to_string(left.name.process) + ", " +
           text_of(left.copy, left.copy.head.program) + ":");
    try {
      out.passed &= report_one(left, wanted, &checks);
    } catch (const std::exception& error) {
      tell(error.what());
    }
  }
  out.passed &= checks.close(ended);
  return out;
}

}  // namespace custash::run
