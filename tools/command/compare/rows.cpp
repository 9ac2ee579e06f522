// SPDX-License-Identifier: MIT
#include "tools/command/compare/rows.hpp"

#include "tools/text.hpp"

#include <algorithm>
#include <cmath>

namespace custash::compare {
namespace {

constexpr const char* kMemoryName = "peak device memory";
constexpr double kWorth = 0.01;  // a gain below this share is none

template <typename Read>
Row row_of(const std::string& name, Unit unit, const std::vector<Round>& rounds, Read read) {
  Row row{name, unit, {}, {}, {}};
  for (const Side side : kSides) {
    auto& values = row.values.at(index_of(side));
    for (const Round& round : rounds)
      values.push_back(read(round.of(side)));
    row.spreads.at(index_of(side)) = spread_of(values);
  }
  row.judged = judge(row.values[0], row.values[1]);
  return row;
}

template <typename Holds>
bool all_runs(const std::vector<Round>& rounds, Holds holds) {
  return std::all_of(rounds.begin(), rounds.end(), [&](const Round& round) {
    return holds(round.of(Side::Without)) && holds(round.of(Side::With));
  });
}

// With zero or less on a side a ratio says nothing.
bool has_ratio(const Row& row) {
  return row.spreads[0].median > 0 && row.spreads[1].median > 0;
}

bool is_better(const Row& row, bool higher_is_better) {
  return row.judged.verdict == (higher_is_better ? Verdict::More : Verdict::Less);
}

bool is_small(double ratio) {
  return ratio < 1 + kWorth && ratio > 1 / (1 + kWorth);
}

}  // namespace

MemorySource memory_source(const std::vector<Round>& rounds) {
  if (all_runs(rounds, [](const Run& run) { return run.memory.of_processes.has_value(); }))
    return MemorySource::Processes;
  // A device that never rises belongs to another program, or is none at all.
  if (all_runs(rounds, [](const Run& run) { return run.memory.above_idle.value_or(0) > 0; }))
    return MemorySource::Devices;
  return MemorySource::None;
}

std::vector<Row> rows_of(const CommandOptions& options, const std::vector<Round>& rounds) {
  std::vector<Row> rows;
  const auto add_row = [&](const char* name, Unit unit, auto read) {
    rows.push_back(row_of(name, unit, rounds, read));
  };
  add_row("wall time", Unit::Seconds, [](const Run& run) { return run.wall; });
  if (!options.metric.empty())
    add_row("metric", Unit::Plain, [](const Run& run) { return run.metric.value_or(0); });
  add_row("user time", Unit::Seconds, [](const Run& run) { return run.user; });
  add_row("system time", Unit::Seconds, [](const Run& run) { return run.system; });
  const MemorySource source = memory_source(rounds);
  if (source != MemorySource::None)
    add_row(kMemoryName, Unit::Bytes, [source](const Run& run) {
      return static_cast<double>(
          (source == MemorySource::Processes ? run.memory.of_processes : run.memory.above_idle)
              .value_or(0));
    });
  return rows;
}

const Row* memory_row(const std::vector<Row>& rows) {
  for (const Row& row : rows)
    if (row.unit == Unit::Bytes) return &row;
  return nullptr;
}

bool is_gain(const Row& row, bool higher_is_better) {
  const double ratio = row.judged.ratio.median;
  return is_better(row, higher_is_better) &&
         (!has_ratio(row) ||
          (higher_is_better ? ratio <= 1 / (1 + kWorth) : ratio >= 1 + kWorth));
}

// What the rounds leave open, so that "no gain" also says which loss would have shown: as
// shares of what the first side takes, or as `factor` says it.
std::string interval_of(const Row& row) {
  if (row.judged.lowest == 0) return "";
  std::string out = "; between ";
  const auto add_share = [&](double ratio) {
    const double change = (1 / ratio - 1) * 100;
    add(out, "%.1f %% %s", std::abs(change), change > 0 ? "more" : "less");
  };
  add_share(row.judged.highest);
  out += " and ";
  add_share(row.judged.lowest);
  return out + ", with 95 % certainty";
}

std::string interval_of(const Row& row, bool inverse) {
  const Judged& judged = row.judged;
  if (judged.lowest == 0) return "";
  std::string out;
  add(out,
      "; %.2f to %.2f times with 95 %% certainty",
      inverse ? 1 / judged.highest : judged.lowest,
      inverse ? 1 / judged.lowest : judged.highest);
  return out;
}

std::string verdict_of(const Row& row, bool higher_is_better, const std::string& with) {
  const double ratio = row.judged.ratio.median;
  const std::string name = row.name + ": ";
  std::string interval = interval_of(row);
  const auto noise = [&](const char* how) {
    std::string out = " The difference is ";
    add(out, "%s the noise (p = %.2g%s).", how, row.judged.chance, interval.c_str());
    return out;
  };
  if (row.judged.verdict == Verdict::TooFew) {
    std::string out = name;
    add(out,
        "%s in %zu round%s. Too few rounds to distinguish it from noise: it takes %u or more.",
        has_ratio(row) ? shown_ratio(ratio).c_str() : "no ratio",
        row.values[0].size(),
        row.values[0].size() == 1 ? "" : "s",
        kFewestRounds);
    return out;
  }
  const auto is_one = [](const Spread& spread) { return spread.least == spread.most; };
  if (is_one(row.spreads[0]) && is_one(row.spreads[1]) &&
      row.spreads[0].least == row.spreads[1].least)
    return name + "no gain. It is the same in all runs.";
  if (row.judged.verdict == Verdict::Noise) return name + "no gain shown." + noise("within");
  const bool better = is_better(row, higher_is_better);
  const bool is_time = row.unit == Unit::Seconds;
  std::string out = name;
  if (!has_ratio(row))
    out += std::string(better ? "better" : "a loss: worse") + " " + with + ": " +
           shown(row.spreads[0].median, row) + " becomes " + shown(row.spreads[1].median, row) +
           ".";
  else if (is_gain(row, higher_is_better)) {
    interval = interval_of(row, higher_is_better);
    add(out,
        is_time ? "%.2f times as fast %s." : "better by a factor of %.2f %s.",
        higher_is_better ? 1 / ratio : ratio,
        with.c_str());
  } else if (is_small(ratio))
    out += std::string("no gain. It is ") + (better ? "better" : "worse") + " " + with +
           " by less than 1 %.";
  else if (better)
    out += "no gain. More runs are better " + with + ", but the median of the ratios is worse.";
  else if ((ratio > 1) != higher_is_better)
    out += "no gain. More runs are worse " + with + ", but the median of the ratios is better.";
  else {
    interval = interval_of(row, !higher_is_better);
    add(out,
        is_time ? "a loss: %.2f times as long %s." : "a loss: worse by a factor of %.2f %s.",
        higher_is_better ? ratio : 1 / ratio,
        with.c_str());
  }
  return out + noise("larger than");
}

std::string memory_verdict(const Row& row, const std::string& with) {
  const double change = 1 / row.judged.ratio.median - 1;  // with custash
  const bool more = row.judged.verdict == Verdict::More;
  if ((!more && row.judged.verdict != Verdict::Less) || !std::isfinite(change) ||
      std::abs(change) < kWorth || more != (change > 0))
    return "";
  std::string out = row.name;
  add(out,
      ": %.0f %% %s %s. The difference is larger than the noise (p = %.2g%s).",
      std::max(1.0, std::abs(change) * 100),
      more ? "more" : "less",
      with.c_str(),
      row.judged.chance,
      interval_of(row).c_str());
  return out;
}

std::string idle_warning(const std::vector<Round>& rounds) {
  constexpr Bytes kTolerance = 32_MiB;
  Bytes least = ~Bytes{0};
  Bytes most = 0;
  for (const Round& round : rounds) {
    for (const Run& run : round.runs) {
      least = std::min(least, run.memory.idle.value_or(least));
      most = std::max(most, run.memory.idle.value_or(most));
    }
  }
  if (most < least || most - least <= kTolerance) return "";
  return "Another program's device memory changed by " + human(most - least) +
         " between the runs. Times and peaks may not be comparable.";
}

}  // namespace custash::compare
