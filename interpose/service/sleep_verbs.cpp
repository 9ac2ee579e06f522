// SPDX-License-Identifier: MIT
#include "interpose/process/process.hpp"
#include "interpose/process/sleep_library.hpp"
#include "interpose/service/verbs.hpp"

#include <atomic>
#include <string>

namespace custash::sleep_verbs {

bool prepare(std::string* why) {
  Allocator* const core = process::running();
  return core != nullptr && open_sleep_library(*core, why) != nullptr;
}

void sleep(Allocator& core,
           service::Session&,
           std::string_view arguments,
           service::Answer* answer) {
  sleep_library()->answer_sleep(core, arguments, answer);
}

void deep_trim(Allocator& core,
               service::Session&,
               std::string_view arguments,
               service::Answer* answer) {
  sleep_library()->answer_deep_trim(core, arguments, answer);
}

// Waking waits for room and asks other processes for it. The service's thread does neither.
void wake(Allocator& core, service::Session&, std::string_view, service::Answer* answer) {
  static constinit std::atomic<bool> under_way{false};
  if (Sleep(core).state() != SleepState::Awake || under_way.load()) {
    const auto bring_back = [](void* of) -> void* {
      Sleep(*static_cast<Allocator*>(of)).wake();
      under_way.store(false);
      return nullptr;
    };
    answer->status = service::ReplyStatus::Later;
    answer->text = "waking";
    if (under_way.exchange(true) || service::start_thread(bring_back, &core)) return;
    under_way.store(false);
    answer->status = service::ReplyStatus::NotNow;
    return;
  }
  answer->text = "awake";
}

int tick(Allocator& core) {
  constexpr int kLook = 250;
  if (const SleepLibrary* const library = sleep_library()) library->tick(core);
  return kLook;
}

}  // namespace custash::sleep_verbs
