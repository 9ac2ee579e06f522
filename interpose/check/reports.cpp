// SPDX-License-Identifier: MIT
#include "interpose/build_id.hpp"
#include "interpose/check/core_table.hpp"
#include "interpose/history/history.hpp"
#include "interpose/history/leak_text.hpp"
#include "interpose/history/record.hpp"
#include "interpose/history/snapshot.hpp"
#include "interpose/history/symbols.hpp"
#include "interpose/observe/report_library.hpp"
#include "interpose/process/json.hpp"
#include "interpose/process/snapshot_form.hpp"
#include "interpose/reports/dumps.hpp"
#include "interpose/reports/launcher.hpp"
#include "interpose/reports/nvtx.hpp"

#include <map>

namespace custash {
namespace {

void begin(Allocator& core, const char* launcher, void (*say)(const std::string& line)) {
  launcher::begin(core, launcher);
  dumps::begin(core.config(), say);
}

void unchecked(const std::string& why) {
  launcher::note(&ledger::Header::unchecked, why);
}

custash_status_t write_snapshot(Allocator& core, const char* path, std::string* message) {
  if (!snapshot::form_of_ending(path)) {
    *message = snapshot::kOtherEnding;
    return CUSTASH_ERROR_INVALID_VALUE;
  }
  std::string why;
  std::string wrote;
  if (!snapshot::write(core, path, snapshot::Existing::Replace, &why, &wrote)) {
    *message = wrote + ": " + why;
    return CUSTASH_ERROR_FILE;
  }
  if (wrote != path) *message = snapshot::rendering_hint(wrote);
  return CUSTASH_SUCCESS;
}

std::function<std::string()> snapshot_json(Allocator& core, history::Events events) {
  return [now = snapshot::take(core, events)]() mutable {
    return contained(core_calls().out_of_memory, [&] {
      snapshot::add_names(&now);
      return snapshot::as_json(now);
    });
  };
}

// By the calling library, where history or stats:detailed records callers.
void write_modules(JsonWriter& json, const history::Reading& history, int device) {
  struct Sum {
    std::int64_t blocks = 0, bytes = 0, allocations = 0, allocated_bytes = 0;
  };

  Symbols symbols = symbols_here();
  std::map<std::string, Sum> callers;
  for (const history::Site& site : history.sites) {
    if (site.device != device || site.memory == observe::MemoryKind::Pinned) continue;
    std::string caller;
    if (site.stack != stacks::kNone)
      caller = caller_of(symbols.frames(), symbols.frames_of(history.stacks[site.stack]));
    Sum& sum = callers[caller];
    sum.blocks += site.blocks;
    sum.bytes += site.bytes;
    sum.allocations += site.allocations;
    sum.allocated_bytes += site.allocated_bytes;
  }
  json.objects("callers", callers, [&](const auto& row) {
    const Sum& sum = row.second;
    json.text_member("module", row.first);
    json.member("in_use", sum.blocks);
    json.member("in_use_requested_bytes", sum.bytes);
    json.member("allocations", sum.allocations);
    json.member("allocated_requested_bytes", sum.allocated_bytes);
  });
}

void write_callers(JsonWriter& json, int device) {
  const history::Reading history = history::read(history::Events::Without);
  write_modules(json, history, device);
  const auto index = static_cast<std::size_t>(device);
  const bool known = index < history.devices.size();
  json.buckets(
      "lifetimes_up_to_ns",
      known ? history.devices[index].lifetimes : decltype(history::DeviceTrack::lifetimes){});
}

constexpr ReportLibrary kLibrary{
    .build = kBuild,
    .out_of_memory = throw_bad_alloc,
    .record = Contained<record::start>::call,
    .begin = Contained<begin>::call,
    .unchecked = Contained<unchecked>::call,
    .finish = launcher::finish,
    .print = dumps::at_exit,
    .start_history = history::start,
    .stop_history = history::stop,
    .made = history::made,
    .ended = history::ended,
    .driver_call = history::driver_call,
    .start_nvtx = nvtx::start,
    .begin_range = nvtx::begin_range,
    .end_range = nvtx::end_range,
    .snapshot = Contained<write_snapshot>::call,
    .snapshot_json = Contained<snapshot_json>::call,
    .leaks_text = Contained<leaks::text_now>::call,
    .write_callers = Contained<write_callers>::call,
};

}  // namespace

const ReportLibrary* open_reports(const CoreTable* core) {
  prepare_unwinder();
  use_core(core);
  return &kLibrary;
}

}  // namespace custash
