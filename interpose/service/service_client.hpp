// SPDX-License-Identifier: MIT
// Asks the services (service.hpp) of other processes. libcustash uses it as a neighbour and as
// an importer of memory, the command for its user. Needs libc alone. Every wait has an end;
// every descriptor is closed on exec. Thread safe; a Connection belongs to one thread at a
// time.
#pragma once

#include "interpose/process/service_wire.hpp"

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace custash::service {

using Deadline = std::chrono::steady_clock::time_point;

inline Deadline in_milliseconds(int count) {
  return std::chrono::steady_clock::now() + std::chrono::milliseconds(count);
}

// Whether the process at the other end of this connection is the same user's.
bool is_own_user(int fd);

// The running services of this user, in all processes that can be reached.
std::vector<Identity> find_all();

struct Reply {
  bool heard = false;  // false: no answer in time, or what came was no reply
  ReplyStatus status = ReplyStatus::NotNow;
  std::string text;
  std::vector<int> files;  // the caller's to close

  [[nodiscard]] bool done() const { return heard && status == ReplyStatus::Done; }
};

class Connection {
 public:
  Connection() = default;
  // Not open where there is no such service or it is another user's. While too many others want
  // a connection it tries again, until then.
  explicit Connection(const Identity& who, Deadline until = {});
  ~Connection();
  Connection(Connection&& other) noexcept;
  Connection& operator=(Connection&& other) noexcept;

  [[nodiscard]] bool open() const { return fd_ >= 0; }

  // Whether the other side has closed it.
  [[nodiscard]] bool ended() const;

  [[nodiscard]] int fd() const { return fd_; }

  // The caller has given the descriptor another number.
  void renumber(int fd) { fd_ = fd; }

  // Never waits. `request`: a verb and its arguments.
  [[nodiscard]] bool send(std::string_view request);
  Reply receive(Deadline until);

  Reply ask(std::string_view request, Deadline until) {
    return send(request) ? receive(until) : Reply{};
  }

 private:
  int fd_ = -1;
};

}  // namespace custash::service
