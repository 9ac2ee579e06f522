// SPDX-License-Identifier: MIT
// Turns: processes of one user that together need more of a device than it has (option turns:).
// One that lacks memory asks the others how long they idle. The one that idles longest goes to
// sleep for it, once its slice is over.
#pragma once

#include "allocator/peer_processes.hpp"
#include "interpose/service/service.hpp"

#include <string_view>

namespace custash::turns {

// What the core calls. Any thread; none of them throws.
TurnCalls calls();

// The verbs. "turn_look UUID": the bytes that could go to sleep, and for how many milliseconds
// the process has idled and its slice still lasts. "turn_part UUID BYTES": about so many bytes
// of that device go to sleep. "turn UUID": all of the process, for processes of older builds.
void look(Allocator& core,
          service::Session& session,
          std::string_view arguments,
          service::Answer* answer);
void sleep(Allocator& core,
           service::Session& session,
           std::string_view arguments,
           service::Answer* answer);

void sleep_in_part(Allocator& core,
                   service::Session& session,
                   std::string_view arguments,
                   service::Answer* answer);

}  // namespace custash::turns
