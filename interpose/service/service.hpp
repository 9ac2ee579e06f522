// SPDX-License-Identifier: MIT
// Service: one thread that answers other processes of the same user: neighbours that are short
// of memory, importers of memory, the command. It listens on an abstract socket
// (service_wire.hpp) and starts when it is first needed. Exit never waits for it. Verbs are
// rows of one table (startup.cpp).
#pragma once

#include "allocator/allocator.hpp"
#include "interpose/process/service_wire.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace custash::service {

// One connection, as verbs see it. Owned by the service's thread.
struct Session {
  std::uint64_t id = 0;  // never used again
  pid_t peer = 0;        // the process that connected; 0: not visible from here
  bool holds = false;    // something is held for it: session_ended() is called when it is gone
  bool leaving = false;  // it announced its end, so no check that the process is gone is needed
};

struct Answer {
  ReplyStatus status = ReplyStatus::Done;
  std::string text;        // any bytes
  std::vector<int> files;  // at most kMaxFiles; sent and closed
  // Makes the text once other threads may end contexts again: looking up names takes the
  // loader's lock, which such a thread may hold. Empty: the text is there.
  std::function<std::string()> text_later;
};

// What a verb does, on the service's thread, with no context current and no lock held, while no
// context ends. It may throw: the answer is NotNow. It must not wait for the program.
using Run = void(Allocator& core, Session& session, std::string_view arguments, Answer* answer);

struct Verb {
  std::string_view name;
  Run* run;
  bool for_peers = false;  // answered with control:false, too
  // Before it runs, and outside of what the end of a context waits for: it may take the
  // loader's lock. False, with the reason: refused.
  bool (*prepare)(std::string* why) = nullptr;
};

// Called once, before the service can start: its verbs, and the function that releases what a
// session held. `verbs` must outlive the service.
void answer_with(std::span<const Verb> verbs, void (*session_ended)(const Session& session));

// Called before the service can start: something that is due now and then. It returns the
// milliseconds until the next call. It runs as a verb does.
void tick_with(int (*tick)(Allocator& core));

// Starts the thread if it does not run. False where that is impossible: no sockets, no threads,
// or custash does not serve this process. Any thread may call it.
bool start() noexcept;
// Makes the service start once the driver has given the first memory.
void start_with_memory(Driver& driver);
// The program got memory of the driver's itself: the same, where an option wants the service.
void memory_was_had(const Allocator& core);
// This process's identity to others; pid 0: the service has not started.
Identity identity() noexcept;
// Zeros: the service has not started.
Secret secret() noexcept;

// Runs `what(of)` on a thread of its own, with every signal blocked: the program's handlers run
// on the program's threads. False where no thread can be made.
bool start_thread(void* (*what)(void* of), void* of);

// Called at exit, once the core is out of sight: waits a tenth of a second at most.
void stop() noexcept;
void after_fork_in_child() noexcept;

// Whether one of those lives, or waits for a verb to end: a verb that waits gives up then.
bool paused() noexcept;

// No verb runs while one lives. Used around the end of a context.
class Pause {
 public:
  Pause() noexcept;
  ~Pause();
  Pause(const Pause&) = delete;
  Pause& operator=(const Pause&) = delete;
};

}  // namespace custash::service
