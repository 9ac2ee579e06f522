// SPDX-License-Identifier: MIT
// The verbs of the service (service.hpp) that belong to no other part, and what its thread
// looks at between two requests.
#pragma once

#include "interpose/service/service.hpp"

// These keep the process still: they put its device memory to sleep, wake it, or trim it
// deeply.
namespace custash::sleep_verbs {

// "sleep DEVICE MILLISECONDS": all devices for -1; at most this long for work that still runs.
// The answer says what became of the memory, or why it did not go to sleep.
void sleep(Allocator& core,
           service::Session& session,
           std::string_view arguments,
           service::Answer* answer);

// "deep_trim DEVICE MILLISECONDS": the same for a deep trim.
void deep_trim(Allocator& core,
               service::Session& session,
               std::string_view arguments,
               service::Answer* answer);

// "wake": the answer comes when the memory is there.
void wake(Allocator& core,
          service::Session& session,
          std::string_view arguments,
          service::Answer* answer);

// The look at whether the process idles (sleep_after:, deep_trim_after:).
int tick(Allocator& core);

}  // namespace custash::sleep_verbs

namespace custash::service {

// "ping": the answer is "PID VERSION".
void ping(Allocator& core, Session& session, std::string_view arguments, Answer* answer);

// "trim BYTES" or "trim all": gives cached memory of each device back, BYTES in all. The answer
// is the number of bytes.
void trim(Allocator& core, Session& session, std::string_view arguments, Answer* answer);

}  // namespace custash::service

// Over history and snapshots.
namespace custash::snapshot {

// "snapshot FORM", FORM html, json, pickle or trace: the whole text of it.
void answer(Allocator& core,
            service::Session& session,
            std::string_view arguments,
            service::Answer* answer);

// "history EVENTS DEPTH" switches it on, "history off" off.
void answer_history(Allocator& core,
                    service::Session& session,
                    std::string_view arguments,
                    service::Answer* answer);

// "leaks": a snapshot as JSON with the call sites alone: no devices, no events.
void answer_leaks(Allocator& core,
                  service::Session& session,
                  std::string_view arguments,
                  service::Answer* answer);

}  // namespace custash::snapshot

namespace custash::idle {

// Memory that idles: returns what is due (decay:, pinned_decay:) and publishes what neighbours
// could get. Milliseconds until the next look: ten seconds at most.
int tick(Allocator& core);

}  // namespace custash::idle
