// SPDX-License-Identifier: MIT
// The verbs of the service (service.hpp) over history and snapshots.
#pragma once

#include "interpose/service/service.hpp"

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
