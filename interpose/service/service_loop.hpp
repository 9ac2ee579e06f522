// SPDX-License-Identifier: MIT
// EventLoop: runs on the service's thread. It accepts connections, reads requests, runs verbs
// and answers. It checks all input, and no client can make it wait for more than a second.
// The program may close each of its descriptors, and use the number for a file of its own.
// Never destroyed once its thread runs.
#pragma once

#include "interpose/process/descriptors.hpp"
#include "interpose/service/service.hpp"

#include <chrono>
#include <span>
#include <vector>

#include <poll.h>

namespace custash::service {

// The arguments of answer_with().
std::span<const Verb> verbs();
void session_ended(const Session& session);
// Milliseconds until the next call; -1: never.
int tick(Allocator& core);
bool ticks();

class EventLoop {
 public:
  EventLoop(const Identity& who, const Secret& secret);

  // False if no socket is available, or its name is taken.
  bool listen();
  [[noreturn]] void run();
  void give_up();  // no thread could be made

  [[nodiscard]] const Identity& who() const { return who_; }

  [[nodiscard]] const Secret& secret() const { return secret_; }

 private:
  using Clock = std::chrono::steady_clock;

  struct Client {
    int fd = -1;
    bool gone = false;        // the connection has ended; fd is of the process, or -1
    Clock::time_point until;  // when gone: it counts as dead then
    Session session;
  };

  void accept_one();
  // True: the client is to be dropped. `event`: its descriptor can be read.
  bool is_over(Client& client, bool event);
  // False: the client is to be dropped.
  bool serve(Client& client);
  // True: nothing is held for it any more.
  bool hang_up(Client& client);
  // `process`: a descriptor of its process, or -1.
  static void watch(Client& client, int process);
  // True: its process has ended.
  static bool is_dead(Client& client);
  [[nodiscard]] int poll_timeout() const;
  int tick_now();

  const Identity who_;
  const Secret secret_;
  int listener_ = -1;
  std::uint64_t next_session_ = 1;
  Clock::time_point next_tick_{};
  // Room for all is reserved at the start, so that the thread never fails for want of memory.
  std::vector<Client> clients_;
  std::vector<pollfd> waiting_;
};

// The scope in which one verb runs, once enter() returned true.
class VerbScope {
 public:
  VerbScope() = default;
  ~VerbScope();
  VerbScope(const VerbScope&) = delete;
  VerbScope& operator=(const VerbScope&) = delete;

  bool enter();

 private:
  bool entered_ = false;
};

}  // namespace custash::service
