// SPDX-License-Identifier: MIT
// The C API over statistics, history and snapshots: what custash.h promises, and nothing else.
#include "allocator/base/last_error.hpp"
#include "allocator/base/log.hpp"
#include "interpose/api/control.hpp"
#include "interpose/counters/device_stats.hpp"
#include "interpose/observe/report_library.hpp"

#include <algorithm>
#include <cstring>
#include <string>

using namespace custash;  // NOLINT: the definitions below are C's
using control::with_core;
using control::with_device;

namespace {

template <typename Body>
custash_status_t with_reports(Body body) noexcept {
  return with_core([&](Allocator& core) {
    std::string why;
    const ReportLibrary* const reports = open_report_library(&why);
    if (reports != nullptr) return body(core, *reports);
    set_last_error(why);
    return CUSTASH_ERROR_FILE;
  });
}

}  // namespace

custash_status_t custash_memory_stats(int device, custash_stat_t* stats, size_t* count) {
  if (count == nullptr) return CUSTASH_ERROR_INVALID_VALUE;
  return with_device(device, [&](Allocator& core, int number) {
    static const auto* const names = new auto(control::names_of(device_stats::flatten({})));
    return control::write_stats(
        device_stats::flatten(device_stats::read(core, number)), *names, stats, count);
  });
}

custash_status_t custash_get_device_stats(int device, custash_device_stats_t* stats) {
  constexpr std::size_t kLeast = sizeof(std::size_t) + sizeof(std::int64_t);
  if (stats == nullptr || stats->size < kLeast) return CUSTASH_ERROR_INVALID_VALUE;
  return with_device(device, [&](Allocator& core, int number) {
    custash_device_stats_t all = device_stats::read(core, number);
    all.size = std::min(stats->size, sizeof all);
    std::memcpy(stats, &all, all.size);
    return CUSTASH_SUCCESS;
  });
}

custash_status_t custash_stats_text(int device, int form, char* text, size_t* size) {
  if (size == nullptr || form < CUSTASH_TEXT_JSON || form > CUSTASH_TEXT_TABLE)
    return CUSTASH_ERROR_INVALID_VALUE;
  if (form != CUSTASH_TEXT_JSON) {
    set_last_error(
        "the library writes JSON only: custash stat PID prints the table, and with "
        "--prometheus that form");
    return CUSTASH_ERROR_INVALID_VALUE;
  }
  return with_device(device, [&](Allocator& core, int number) {
    return control::write_text(device_stats::as_json(core, number)(), text, size);
  });
}

custash_status_t custash_history_start(size_t events, unsigned int depth) {
  return with_reports([&](Allocator&, const ReportLibrary& reports) {
    return reports.start_history(events, depth) ? CUSTASH_SUCCESS : CUSTASH_ERROR_OUT_OF_MEMORY;
  });
}

custash_status_t custash_history_stop(void) {
  return with_core([](Allocator&) {
    if (const ReportLibrary* const reports = report_library()) reports->stop_history();
    return CUSTASH_SUCCESS;
  });
}

custash_status_t custash_snapshot(const char* path) {
  if (path == nullptr) {
    set_last_error("a null pointer");
    return CUSTASH_ERROR_INVALID_VALUE;
  }
  return with_reports([&](Allocator& core, const ReportLibrary& reports) {
    std::string message;
    const custash_status_t status = reports.snapshot(core, path, &message);
    if (status != CUSTASH_SUCCESS) {
      set_last_error(message);
    } else if (!message.empty()) {
      log(LogLevel::Warn, "event=snapshot_as_json hint=\"" + message + "\"");
    }
    return status;
  });
}

custash_status_t custash_leaks_text(char* text, size_t* size) {
  if (size == nullptr) return CUSTASH_ERROR_INVALID_VALUE;
  return with_reports([&](Allocator& core, const ReportLibrary& reports) {
    return control::write_text(reports.leaks_text(core), text, size);
  });
}
