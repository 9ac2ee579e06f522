// SPDX-License-Identifier: MIT
// The C API over history and snapshots: what custash.h promises, and nothing else.
#include "allocator/base/last_error.hpp"
#include "allocator/base/log.hpp"
#include "interpose/api/control.hpp"
#include "interpose/history/history.hpp"
#include "interpose/history/leak_text.hpp"
#include "interpose/history/snapshot.hpp"
#include "interpose/history/snapshot_form.hpp"

#include <string>

using namespace custash;  // NOLINT: the definitions below are C's
using control::with_core;

custash_status_t custash_history_start(size_t events, unsigned int depth) {
  return with_core([&](Allocator&) {
    return history::start(events, depth) ? CUSTASH_SUCCESS : CUSTASH_ERROR_OUT_OF_MEMORY;
  });
}

custash_status_t custash_history_stop(void) {
  return with_core([](Allocator&) {
    history::stop();
    return CUSTASH_SUCCESS;
  });
}

custash_status_t custash_snapshot(const char* path) {
  const bool has_form = path != nullptr && snapshot::form_of_ending(path);
  if (!has_form) {
    set_last_error(path == nullptr ? "a null pointer" : snapshot::kOtherEnding);
    return CUSTASH_ERROR_INVALID_VALUE;
  }
  return with_core([&](Allocator& core) {
    std::string why;
    std::string wrote;
    if (!snapshot::write(core, path, snapshot::Existing::Replace, &why, &wrote)) {
      set_last_error(wrote + ": " + why);
      return CUSTASH_ERROR_FILE;
    }
    if (wrote != path)
      log(LogLevel::Warn,
          "event=snapshot_as_json hint=\"" + snapshot::rendering_hint(wrote) + "\"");
    return CUSTASH_SUCCESS;
  });
}

custash_status_t custash_leaks_text(char* text, size_t* size) {
  if (size == nullptr) return CUSTASH_ERROR_INVALID_VALUE;
  return with_core(
      [&](Allocator& core) { return control::tell_text(leaks::text_now(core), text, size); });
}
