// SPDX-License-Identifier: MIT
#include "interpose/service/my_turns.hpp"

#include "allocator/peer_processes.hpp"
#include "interpose/process/descriptors.hpp"
#include "interpose/service/service.hpp"
#include "interpose/service/service_client.hpp"

#include <algorithm>
#include <cerrno>

#include <sys/socket.h>
#include <unistd.h>

namespace custash::turns {
namespace {

// Other users could take the name, too: theirs does not count.
int bound_to(const std::string& name) {
  const service::AbstractAddress address(name);
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return TurnCalls::kNoTurn;
  if (bind(fd, address.get(), address.size()) == 0 && listen(fd, 128) == 0)
    return descriptors().keep(fd);
  int result = TurnCalls::kNoTurn;
  if (errno == EADDRINUSE) {
    const bool reached = connect(fd, address.get(), address.size()) == 0;
    const bool just_made = !reached && (errno == ECONNREFUSED || errno == EAGAIN);
    if (just_made || (reached && service::is_own_user(fd))) result = TurnCalls::kTaken;
  }
  close(fd);
  return result;
}

}  // namespace

MyTurns& my_turns() {
  static auto* const turns = new MyTurns;
  return *turns;
}

int MyTurns::begin(const std::string& name) {
  const RankedLock lock(mutex_);
  const auto same = [&](const Mine& each) { return each.users != 0 && each.name == name; };
  const auto empty = [](const Mine& each) { return each.users == 0; };
  auto found = std::find_if(list_.begin(), list_.end(), same);
  if (found == list_.end()) {
    const int fd = bound_to(name);
    if (fd < 0) return fd;
    found = std::find_if(list_.begin(), list_.end(), empty);
    if (found == list_.end()) found = list_.emplace(list_.end());
    found->name = name;
    found->fd = fd;
  }
  ++found->users;
  return static_cast<int>(found - list_.begin());
}

void MyTurns::end(int place) {
  const RankedLock lock(mutex_);
  Mine& mine = list_[static_cast<std::size_t>(place)];
  if (--mine.users != 0) return;
  descriptors().close_own(mine.fd);
}

}  // namespace custash::turns
