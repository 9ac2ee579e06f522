// SPDX-License-Identifier: MIT
#include "tools/replay/report.hpp"

#include "tools/text.hpp"

namespace custash::replay {
namespace {

double mib(Bytes bytes) {
  return static_cast<double>(bytes) / static_cast<double>(1_MiB);
}

double milliseconds(Nanoseconds time) {
  return static_cast<double>(time) / 1e6;
}

double over(Bytes held, Bytes in_use) {
  return in_use == 0 ? 1 : static_cast<double>(held) / static_cast<double>(in_use);
}

constexpr Bytes kFewPages = 16_MiB;

using Count = unsigned long long;

void add_comparison(std::string& out, const Report& report) {
  const auto row = [&](const char* who, Bytes held, Count calls, Nanoseconds time) {
    add(out,
        "  %-28s %12.1f %12.4f %12llu %12.3f\n",
        who,
        mib(held),
        over(held, report.outcome.peak_in_use),
        calls,
        milliseconds(time));
  };
  add(out,
      "  %-28s %12s %12s %12s %12s\n",
      "memory calls only",
      "MiB held",
      "utilisation",
      "calls",
      "ms");
  const Outcome& ours = report.outcome;
  row(report.through.c_str(),
      ours.peak_held,
      ours.memory_calls().calls,
      ours.memory_calls().time);
  const auto model = [&](const char* who, const std::optional<ModelOutcome>& m) {
    if (m) row(who, m->peak_held, m->driver_calls, m->driver_time);
  };
  model("PyTorch (model)", report.native);
  model("expandable segments (model)", report.expandable);
}

void add_idle(std::string& out, const std::vector<IdleMoment>& moments) {
  if (moments.empty()) return;
  out += "  held over in use, where the program idles after its peak:\n";
  add(out,
      "    %12s %12s %12s %12s %12s %12s\n",
      "events",
      "MiB in use",
      "cached",
      "trimmed",
      "deep trim",
      "it took, ms");
  for (const IdleMoment& each : moments)
    add(out,
        "    %12llu %12.1f %12.3f %12.3f %12.3f %12.1f\n",
        static_cast<Count>(each.events),
        mib(each.in_use),
        over(each.held, each.in_use),
        over(each.trimmed, each.in_use),
        over(each.deep, each.in_use),
        milliseconds(each.time));
}

void add_idle_json(std::string& out, const std::vector<IdleMoment>& moments) {
  if (moments.empty()) return;
  out += ",\"idle\":[";
  for (const IdleMoment& each : moments)
    add(out,
        "%s{\"events\":%llu,\"in_use_bytes\":%llu,\"held_bytes\":%llu,\"trimmed_bytes\":%llu,"
        "\"deep_trimmed_bytes\":%llu,\"deep_trim_time_ns\":%llu,\"sound\":%s}",
        &each == moments.data() ? "" : ",",
        static_cast<Count>(each.events),
        static_cast<Count>(each.in_use),
        static_cast<Count>(each.held),
        static_cast<Count>(each.trimmed),
        static_cast<Count>(each.deep),
        static_cast<Count>(each.time),
        each.sound ? "true" : "false");
  out += ']';
}

void add_model(std::string& out, const char* name, const std::optional<ModelOutcome>& model) {
  if (!model) return;
  add(out,
      ",\"%s\":{\"peak_held_bytes\":%llu,\"driver_calls\":%llu,\"driver_time_ns\":%llu}",
      name,
      static_cast<Count>(model->peak_held),
      static_cast<Count>(model->driver_calls),
      static_cast<Count>(model->driver_time));
}

}  // namespace

std::string text_of(const Report& report) {
  const Outcome& o = report.outcome;
  std::string out = report.trace->name + ": ";
  add(out, "%llu events", static_cast<Count>(report.trace->events.size()));
  out += report.through == "custash" ? "\n" : ", through " + report.through + "\n";
  if (report.device)
    add(out, "  device: %.0f MiB, %s\n", mib(*report.device), o.fits ? "fits" : "does not fit");
  add(out, "  peak in use: %.1f MiB\n", mib(o.peak_in_use));
  add(out, "  peak from the driver: %.1f MiB\n", mib(o.peak_held));
  add(out, "  utilisation: %.4f\n", o.utilisation());
  // A page is the least that a driver gives.
  if (o.peak_in_use < kFewPages)
    out += "    (little is in use: the pages of 2 MiB that hold it are counted whole)\n";
  if (report.trace->pinned_peak != 0)
    add(out, "  pinned, not replayed: %.1f MiB\n", mib(report.trace->pinned_peak));
  add(out, "  pages moved: %llu (%.1f MiB), ", static_cast<Count>(o.moves), mib(o.moved_bytes));
  add(out, "%llu mapped at two places at the end\n", static_cast<Count>(o.aliases));
  add(out,
      "  retries: %lld, out of memory: %lld\n",
      static_cast<long long>(o.retries),
      static_cast<long long>(o.ooms));
  const CallRow all = o.all_calls();
  const CallRow memory = o.memory_calls();
  add(out, "  driver time, %s: ", report.modelled_time ? "modelled" : "measured");
  add(out, "%.3f ms in %llu memory calls, ", milliseconds(memory.time), Count{memory.calls});
  add(out, "%.3f ms in all %llu calls\n", milliseconds(all.time), Count{all.calls});
  if (!report.modelled_time) add(out, "  whole replay: %.1f ms\n", milliseconds(o.elapsed));
  for (const CallRow& row : o.calls)
    add(out,
        "    %-36s %10llu %12.3f ms\n",
        row.symbol.c_str(),
        static_cast<Count>(row.calls),
        milliseconds(row.time));
  if (report.native || report.expandable) add_comparison(out, report);
  if (report.smallest) {
    add(out, "  smallest device: custash %.0f MiB", mib(report.smallest->custash));
    add(out, ", driver alone %.0f MiB (0: none)\n", mib(report.smallest->bare));
  }
  add_idle(out, report.idle);
  if (!o.sound) out += "  FAILED: work touched memory that it may not, or a call failed\n";
  return out;
}

std::string json_of(const Report& report) {
  const Outcome& o = report.outcome;
  std::string out = "{\"trace\":" + json_string(report.trace->name);
  out += ",\"through\":" + json_string(report.through);
  const auto number = [&](const char* name, std::uint64_t value) {
    add(out, ",\"%s\":%llu", name, static_cast<Count>(value));
  };
  number("events", report.trace->events.size());
  if (report.device) number("device_bytes", *report.device);
  out += std::string(",\"fits\":") + (o.fits ? "true" : "false");
  out += std::string(",\"sound\":") + (o.sound ? "true" : "false");
  number("peak_in_use_bytes", o.peak_in_use);
  number("peak_held_bytes", o.peak_held);
  add(out, ",\"utilisation\":%.6f", o.utilisation());
  number("pinned_peak_bytes", report.trace->pinned_peak);
  number("pages_moved", o.moves);
  number("moved_bytes", o.moved_bytes);
  number("aliases_left", o.aliases);
  number("num_alloc_retries", static_cast<std::uint64_t>(o.retries));
  number("num_ooms", static_cast<std::uint64_t>(o.ooms));
  number("memory_call_time_ns", o.memory_calls().time);
  number("driver_time_ns", o.all_calls().time);
  number("elapsed_ns", o.elapsed);
  out += std::string(",\"driver_time\":") +
         (report.modelled_time ? "\"modelled\"" : "\"measured\"");
  out += ",\"driver_calls\":{";
  for (const CallRow& row : o.calls)
    add(out,
        "%s\"%s\":{\"calls\":%llu,\"time_ns\":%llu}",
        &row == o.calls.data() ? "" : ",",
        row.symbol.c_str(),
        static_cast<Count>(row.calls),
        static_cast<Count>(row.time));
  out += '}';
  add_model(out, "pytorch_native_model", report.native);
  add_model(out, "pytorch_expandable_model", report.expandable);
  if (report.smallest) {
    number("smallest_device_bytes", report.smallest->custash);
    number("smallest_device_bare_bytes", report.smallest->bare);
  }
  add_idle_json(out, report.idle);
  return out + '}';
}

}  // namespace custash::replay
