// SPDX-License-Identifier: MIT
#include "tools/command/compare/forms.hpp"

#include <cmath>

#include <nlohmann/json.hpp>
#include <sys/wait.h>

namespace custash::compare {
namespace {

using Ordered = nlohmann::ordered_json;

Ordered number(double value) {
  return std::isfinite(value) ? Ordered(value) : Ordered();
}

template <typename Value>
Ordered known(const std::optional<Value>& value) {
  return value ? Ordered(*value) : Ordered();
}

Ordered spread_json(const Spread& spread) {
  return {{"median", number(spread.median)},
          {"min", number(spread.least)},
          {"max", number(spread.most)}};
}

const char* name_of(Verdict verdict) {
  constexpr const char* kNames[] = {"too few rounds", "noise", "lower", "higher"};
  return kNames[static_cast<std::size_t>(verdict)];
}

Ordered row_json(const Row& row) {
  constexpr const char* kUnits[] = {"s", "bytes", ""};
  return {
      {"name", row.name},
      {"unit", kUnits[static_cast<std::size_t>(row.unit)]},
      {"without", spread_json(row.spreads[0])},
      {"with", spread_json(row.spreads[1])},
      {"ratio", spread_json(row.judged.ratio)},
      {"p", number(row.judged.chance)},
      {"ratio_95",
       row.judged.lowest == 0 ? Ordered()
                              : Ordered{number(row.judged.lowest), number(row.judged.highest)}},
      {"with_custash", name_of(row.judged.verdict)}};
}

Ordered run_json(const Run& run) {
  return {{"wall_s", run.wall},
          {"user_s", run.user},
          {"system_s", run.system},
          {"exit_status", WIFEXITED(run.status) ? Ordered(WEXITSTATUS(run.status)) : Ordered()},
          {"signal", WIFSIGNALED(run.status) ? Ordered(WTERMSIG(run.status)) : Ordered()},
          {"metric", known(run.metric)},
          {"peak_bytes_of_processes", known(run.memory.of_processes)},
          {"peak_bytes_above_idle", known(run.memory.above_idle)},
          {"idle_bytes", known(run.memory.idle)}};
}

Ordered passed_json(const passed::PassedCounts& counts) {
  Ordered rows = Ordered::array();
  for (std::size_t i = 0; i < counts.size(); ++i)
    if (counts[i].calls != 0)
      rows.push_back({{"kind", passed::name_of(static_cast<passed::Kind>(i))},
                      {"allocations", counts[i].calls},
                      {"allocated_bytes", counts[i].bytes}});
  return rows;
}

Ordered served_json(const Served& served) {
  const passed::Share share = served.share();
  return {{"processes", served.processes},
          {"processes_without_counters", served.unknown},
          {"allocations", served.allocations},
          {"allocations_servable", share.all_calls},
          {"requested_bytes", share.bytes},
          {"requested_bytes_servable", share.all_bytes},
          {"passed", passed_json(served.passed)},
          {"frees", served.frees},
          {"frees_that_waited", served.free_waits},
          {"pinned_allocations", served.pinned_allocations},
          {"pinned_frees", served.pinned_frees},
          {"waits_between_streams", served.debt_waits},
          {"out_of_memory", served.ooms},
          {"calls_served", served.calls()},
          {"calls_made", served.calls_made()},
          {"calls_avoided", served.calls() - served.calls_made()},
          {"driver_ns", served.driver_time},
          {"peak_in_use_bytes", served.peak_in_use},
          {"peak_held_bytes", served.peak_reserved}};
}

// Without its end; null: no such line.
Ordered line_json(const std::string& line) {
  if (line.empty()) return {};
  return line.substr(0, line.size() - (line.back() == '\n' ? 1 : 0));
}

Ordered difference_json(const std::optional<Difference>& difference) {
  if (!difference) return {};
  return {{"line", difference->line},
          {"before", line_json(difference->before)},
          {"after", line_json(difference->after)}};
}

}  // namespace

std::string as_json(const CommandOptions& options,
                    const Comparison& comparison,
                    const Report& report,
                    const std::string& date) {
  Ordered json{{"format", "custash comparison 1"},
               {"program", options.program},
               {"custash", version_text()},
               {"gpu", comparison.gpu.empty() ? Ordered() : Ordered(comparison.gpu)},
               {"date", date},
               {"conf", options.conf},
               {"against", options.against.empty() ? Ordered() : Ordered(options.against)},
               {"simulated", comparison.simulated},
               {"with_env", options.with_env},
               {"warmup", options.warmup},
               {"asked_rounds", options.rounds},
               {"rounds", Ordered::array()},
               {"results", Ordered::array()}};
  for (const Round& round : comparison.rounds)
    json["rounds"].push_back({{"without", run_json(round.of(Side::Without))},
                              {"with", run_json(round.of(Side::With))},
                              {"served", served_json(round.of(Side::With).served)}});
  for (const Row& row : report.rows)
    json["results"].push_back(row_json(row));
  json["served"] = report.served ? served_json(*report.served) : Ordered();
  json["driver_ns_saved"] = known(report.saved);
  json["verdicts"] = report.verdicts;
  json["advice"] = report.advice;
  json["warnings"] = report.warnings;
  json["same"] = comparison.rounds.empty() ? Ordered() : Ordered(report.same);
  json["output_differs"] = difference_json(comparison.outputs.changed);
  json["own_output_differs"] = difference_json(comparison.outputs.own);
  json["left_running"] = comparison.left_running;
  json["failure"] = comparison.failure.empty() ? Ordered() : Ordered(comparison.failure);
  json["interrupted"] = comparison.interrupted != 0;
  // Words and lines of programs may be in any encoding.
  return json.dump(1, ' ', false, Ordered::error_handler_t::replace) + "\n";
}

}  // namespace custash::compare
