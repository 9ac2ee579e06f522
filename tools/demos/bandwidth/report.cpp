// SPDX-License-Identifier: MIT
#include "tools/demos/bandwidth/bench.hpp"
#include "tools/text.hpp"

namespace custash::bandwidth {
namespace {

std::string whole_size(Bytes bytes) {
  std::string out;
  if (bytes >= 1_GiB && bytes % 1_GiB == 0)
    add(out, "%llu GiB", static_cast<unsigned long long>(bytes / 1_GiB));
  else if (bytes >= 1_MiB && bytes % 1_MiB == 0)
    add(out, "%llu MiB", static_cast<unsigned long long>(bytes / 1_MiB));
  else if (bytes % 1_KiB == 0)
    add(out, "%llu KiB", static_cast<unsigned long long>(bytes / 1_KiB));
  else
    add(out, "%llu B", static_cast<unsigned long long>(bytes));
  return out;
}

void add_row(std::string& out, const Figures& figures) {
  const Cell& cell = figures.cell;
  add(out,
      "%9s  %-4s %-8s %-6s %5u %8.2f %8.2f %11.4f",
      whole_size(cell.bytes).c_str(),
      name_of(cell.direction).data(),
      name_of(cell.memory).data(),
      name_of(cell.allocation).data(),
      cell.processes,
      figures.gb_per_s,
      figures.gb_per_s_all,
      figures.copy_ms);
  if (const auto& cost = figures.allocation)
    add(out, " %11.4f %11.4f %11.4f", cost->first_ms, cost->later_ms, cost->free_ms);
  else
    add(out, " %11s %11s %11s", "-", "-", "-");
  add(out, " %11.4f\n", figures.whole_ms);
}

void add_object(std::string& out, const Figures& figures) {
  const Cell& cell = figures.cell;
  add(out,
      "{\"bytes\":%llu,\"direction\":\"%s\",\"memory\":\"%s\",\"allocation\":\"%s\","
      "\"processes\":%u",
      static_cast<unsigned long long>(cell.bytes),
      name_of(cell.direction).data(),
      name_of(cell.memory).data(),
      name_of(cell.allocation).data(),
      cell.processes);
  const auto number = [&](const char* name, double value) {
    add(out, ",\"%s\":%.6f", name, value);
  };
  number("gb_per_s", figures.gb_per_s);
  number("gb_per_s_all", figures.gb_per_s_all);
  number("copy_ms", figures.copy_ms);
  number("whole_ms", figures.whole_ms);
  if (const auto& cost = figures.allocation) {
    number("first_allocation_ms", cost->first_ms);
    number("allocation_ms", cost->later_ms);
    number("free_ms", cost->free_ms);
  }
  out += '}';
}

}  // namespace

std::string title_of(const Outcome& outcome) {
  std::string out = outcome.device;
  add(out, ", driver %d.%d, ", outcome.driver / 1000, outcome.driver % 1000 / 10);
  out += outcome.custash.empty() ? "bare" : "under custash " + outcome.custash;
  add(out, ", medians of %u", outcome.repetitions);
  if (outcome.simulated) out += "; times are modelled, and each process has a device to itself";
  return out;
}

std::string text_of(const Outcome& outcome) {
  std::string out = title_of(outcome) + "\n\n";
  add(out,
      "%9s  %-4s %-8s %-6s %5s %8s %8s %11s %11s %11s %11s %11s\n",
      "size",
      "copy",
      "memory",
      "buffer",
      "procs",
      "GB/s",
      "all GB/s",
      "copy ms",
      "1st alloc",
      "alloc ms",
      "free ms",
      "whole ms");
  for (const Figures& figures : outcome.figures)
    add_row(out, figures);
  return out;
}

std::string json_of(const Outcome& outcome) {
  std::string out = "{\"device\":" + json_string(outcome.device);
  add(out, ",\"driver\":%d,\"repetitions\":%u", outcome.driver, outcome.repetitions);
  out += std::string(",\"simulated\":") + (outcome.simulated ? "true" : "false");
  out += ",\"custash\":" + (outcome.custash.empty() ? "null" : json_string(outcome.custash));
  out += ",\"cells\":[";
  for (const Figures& figures : outcome.figures) {
    out += &figures == outcome.figures.data() ? "\n " : ",\n ";
    add_object(out, figures);
  }
  return out + "]}\n";
}

}  // namespace custash::bandwidth
