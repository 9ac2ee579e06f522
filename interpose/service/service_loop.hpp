// SPDX-License-Identifier: MIT
// Loop: what the service's thread does: accepts, reads, has verbs run, answers. Everything that
// comes in is checked; no client can make it wait for more than a second. Never destroyed once
// its thread runs.
#pragma once

#include "interpose/process/descriptors.hpp"
#include "interpose/service/service.hpp"

#include <chrono>
#include <span>
#include <vector>

#include <poll.h>

namespace custash::service {

// As answer_with() was told.
std::span<const Verb> verbs();
void session_ended(const Session& session);

class Loop {
 public:
  Loop(const Identity& who, int listener);

  [[noreturn]] void run();
  void give_up();  // no thread could be made

  [[nodiscard]] const Identity& who() const { return who_; }

 private:
  using Clock = std::chrono::steady_clock;

  struct Client {
    int fd = -1;
    bool gone = false;        // the connection has ended; fd tells of the process, or is -1
    Clock::time_point until;  // when gone: it counts as dead then
    Session session;
  };

  void accept_one();
  // False: the client is to be dropped.
  bool serve(Client& client);
  // True: nothing is held for it any more.
  bool hang_up(Client& client);
  [[nodiscard]] int poll_timeout() const;

  const Identity who_;
  const int listener_;
  std::uint64_t next_session_ = 1;
  // Room for all was made at the start: the thread must not fail for want of memory.
  std::vector<Client> clients_;
  std::vector<pollfd> waiting_;
};

// While one is entered, the verb that it is for runs.
class Working {
 public:
  Working() = default;
  ~Working();
  Working(const Working&) = delete;
  Working& operator=(const Working&) = delete;

  bool enter();

 private:
  bool entered_ = false;
};

}  // namespace custash::service
