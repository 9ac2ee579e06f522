// SPDX-License-Identifier: MIT
// The verbs of the service (service.hpp) that belong to no other part, and what its thread
// looks at between two requests.
#pragma once

#include "interpose/service/service.hpp"

// These keep the process still: they put its device memory to sleep, wake it, or trim it
// deeply.
namespace custash::sleep_verbs {

// Before the next two: opens the library that has them.
bool prepare(std::string* why);

// "sleep DEVICE MILLISECONDS": all devices for -1; at most this long for work that still runs.
// The answer says what became of the memory, or why it did not go to sleep.
service::Run sleep;

// "deep_trim DEVICE MILLISECONDS": the same for a deep trim.
service::Run deep_trim;

// "wake": the answer comes when the memory is there.
service::Run wake;

// The look at whether the process idles (sleep_after:, deep_trim_after:).
int tick(Allocator& core);

}  // namespace custash::sleep_verbs

namespace custash::service {

// "ping": the answer is "PID VERSION".
Run ping;

// "trim BYTES" or "trim all": gives cached memory of each device back, BYTES in all. The answer
// is the number of bytes.
Run trim;

}  // namespace custash::service

// Over history and snapshots.
namespace custash::snapshot {

// Before each of these: opens the library that has them.
bool prepare(std::string* why);

// "snapshot json": the whole text of it.
service::Run answer;

// "history EVENTS DEPTH" switches it on, "history off" off.
service::Run answer_history;

// "leaks": a snapshot as JSON with the call sites alone: no devices, no events.
service::Run answer_leaks;

}  // namespace custash::snapshot

namespace custash::idle {

// Memory that idles: returns what is due (decay:, pinned_decay:) and publishes what neighbours
// could get. Milliseconds until the next look: ten seconds at most.
int tick(Allocator& core);

}  // namespace custash::idle
