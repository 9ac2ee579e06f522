// SPDX-License-Identifier: MIT
// Service: one thread of this process that answers other processes of the same user: neighbours
// that are short of memory, importers of memory, the command. It listens on an abstract socket
// (service_wire.hpp), starts when it is first needed, and is never waited for at exit. Verbs
// are rows of one table (startup.cpp).
#pragma once

#include "allocator/allocator.hpp"
#include "interpose/process/service_wire.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace custash::service {

// One connection, as verbs see it. Owned by the service's thread.
struct Session {
  std::uint64_t id = 0;  // never used again
  pid_t peer = 0;        // who it was when it connected; 0: not to be seen from here
  bool holds = false;    // something is held for it: session_ended() is called when it is gone
  bool leaving = false;  // it has said so: its end needs no proof that the process is gone
};

struct Answer {
  ReplyStatus status = ReplyStatus::Done;
  std::string text;        // any bytes
  std::vector<int> files;  // at most kMaxFiles; sent and closed
};

// `run` is called on the service's thread, with no context current, no lock held, and no
// context ending meanwhile. It may throw: the answer is NotNow. It must not wait for the
// program.
struct Verb {
  std::string_view name;
  void (*run)(Allocator& core, Session& session, std::string_view arguments, Answer* answer);
};

// Called once, before the service can start: what it answers from then on, and who lets go of
// what a session held. `verbs` stays where it is.
void answer_with(std::span<const Verb> verbs, void (*session_ended)(const Session& session));

// Starts the thread if it does not run. False where that cannot be: no sockets, no threads, or
// this is no process that custash serves. Any thread.
bool start() noexcept;
// Has it started after the first memory that the driver gives.
void start_with_memory(Driver& driver);
// Who this process is to others; pid 0: it has not started.
Identity identity() noexcept;

// Called at exit, once the core is out of sight: waits a tenth of a second at most.
void stop() noexcept;
void after_fork_in_child() noexcept;

// While one lives no verb runs: around the end of a context.
class Pause {
 public:
  Pause() noexcept;
  ~Pause();
  Pause(const Pause&) = delete;
  Pause& operator=(const Pause&) = delete;
};

}  // namespace custash::service
