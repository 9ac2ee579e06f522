// SPDX-License-Identifier: MIT
// The verbs of the service (service.hpp) that belong to no other part.
#pragma once

#include "interpose/service/service.hpp"

namespace custash::service {

// "ping": the answer is "PID VERSION".
void ping(Allocator& core, Session& session, std::string_view arguments, Answer* answer);

// "trim BYTES" or "trim all": gives cached memory of each device back, BYTES in all. The answer
// is the number of bytes.
void trim(Allocator& core, Session& session, std::string_view arguments, Answer* answer);

}  // namespace custash::service
