// SPDX-License-Identifier: MIT
#include "interpose/history/snapshot.hpp"

#include "interpose/counters/device_stats.hpp"
#include "interpose/counters/passed.hpp"
#include "interpose/history/ledger_book.hpp"
#include "interpose/process/output_file.hpp"
#include "interpose/process/output_text.hpp"
#include "interpose/process/process.hpp"
#include "interpose/process/snapshot_form.hpp"

#include <cstdio>

#include <unistd.h>

namespace custash::snapshot {
std::string command_line() {
  std::string text;
  std::FILE* const file = std::fopen("/proc/self/cmdline", "re");
  if (file == nullptr) return text;
  for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file))
    text += c == 0 ? ' ' : static_cast<char>(c);
  std::fclose(file);
  if (!text.empty()) text.pop_back();
  return text;
}

Snapshot take(Allocator& core, history::Events events) {
  Snapshot out;
  out.pid = getpid();
  out.program = command_line();
  out.history = history::read(events);
  const StackOf stacks = stack_of_blocks(out.history);
  int count = 0;
  if (core.driver().device_get_count(&count) != CUDA_SUCCESS) count = 0;
  for (int device = 0; device < count; ++device) {
    Inventory held;
    const custash_device_stats_t stats = events == history::Events::Without
                                             ? device_stats::counters(core, device)
                                             : device_stats::read(core, device, &held);
    out.devices.push_back(device_state(stats, std::move(held), stacks));
  }
  out.host_stats = process::pinned().stats().flatten();
  out.passed = passed::table().read();
  out.time = ledger::clock_now();
  return out;
}

void add_names(Snapshot* snapshot) {
  Symbols symbols = symbols_here();
  for (const auto& stack : snapshot->history.stacks)
    snapshot->stacks.push_back(symbols.frames_of(stack));
  snapshot->frames = symbols.frames();
}

bool write(Allocator& core,
           const std::string& path,
           Existing existing,
           std::string* why,
           std::string* wrote) {
  if (!form_of_ending(path)) {
    *why = kOtherEnding;
    return false;
  }
  Snapshot now = take(core);
  add_names(&now);
  const std::string text = as_json(now);
  *wrote = json_path(path);
  if (existing == Existing::Keep)
    return output::write_beside_others(wrote, text, getpid(), why);
  return output::write(
      output::resolved(*wrote), text, output::Kind::Snapshot, output::Replace::Own, why);
}

}  // namespace custash::snapshot
