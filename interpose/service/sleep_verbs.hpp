// SPDX-License-Identifier: MIT
// The verbs of the service that keep the process still: they put its device memory to sleep,
// wake it, or trim it deeply. And the look at whether it idles (sleep_after:,
// deep_trim_after:).
#pragma once

#include "interpose/service/service.hpp"

namespace custash::sleep_verbs {

// "sleep DEVICE MILLISECONDS": all devices for -1; so long for work that still runs. The answer
// says what became of the memory, or why it did not go to sleep.
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

int tick(Allocator& core);

}  // namespace custash::sleep_verbs
