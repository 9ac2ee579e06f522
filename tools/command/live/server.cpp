// SPDX-License-Identifier: MIT
#include "tools/command/live/server.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace custash::live {
namespace {

constexpr std::size_t kMostClients = 32;
constexpr std::chrono::seconds kForRequest{2};
constexpr std::chrono::seconds kForAnswer{5};
constexpr std::chrono::milliseconds kForEnd{500};

[[noreturn]] void fail(int port) {
  throw std::runtime_error("port " + std::to_string(port) + ": " + std::strerror(errno));
}

// On 127.0.0.1 only: no other machine can connect.
int listen_at(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) fail(port);
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
      listen(fd, SOMAXCONN) == 0)
    return fd;
  const int error = errno;
  close(fd);
  errno = error;
  fail(port);
}

int port_of(int fd) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.sin_port);
}

int milliseconds_to(Server::Clock::time_point until) {
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(until - Server::Clock::now()).count();
  return static_cast<int>(std::clamp<long>(left, 0, 60'000));
}

bool would_wait() {
  return errno == EAGAIN || errno == EINTR;
}

}  // namespace

Server::Server(int port, std::function<std::string()> metrics)
    : metrics_(std::move(metrics)), listener_(listen_at(port)), port_(port_of(listener_)) {
}

Server::~Server() {
  for (const Client& each : clients_)
    close(each.fd);
  close(listener_);
}

void Server::serve(Clock::time_point until, int other) {
  while (Clock::now() < until) {
    std::vector<pollfd> items{{other, POLLIN, 0}, {listener_, POLLIN, 0}};
    Clock::time_point next = until;
    for (const Client& each : clients_) {
      const bool writes = !each.answer.empty() && !each.ends;
      items.push_back({each.fd, static_cast<short>(writes ? POLLOUT : POLLIN), 0});
      next = std::min(next, each.until);
    }
    if (poll(items.data(), items.size(), milliseconds_to(next)) < 0 && errno != EINTR) return;
    if (items[0].revents != 0) return;
    for (std::size_t i = clients_.size(); i-- > 0;) {
      if (items[i + 2].revents == 0 || attend(clients_[i])) continue;
      close(clients_[i].fd);
      clients_.erase(clients_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    drop_late();
    if (items[1].revents != 0) accept_one();
  }
}

void Server::drop_late() {
  const auto now = Clock::now();
  std::erase_if(clients_, [&](const Client& each) {
    if (now < each.until) return false;
    close(each.fd);
    return true;
  });
}

void Server::accept_one() {
  const bool full = clients_.size() >= kMostClients;
  const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (!clients_.empty() && (full || (fd < 0 && (errno == EMFILE || errno == ENFILE)))) {
    close(clients_.front().fd);
    clients_.erase(clients_.begin());
  } else if (fd < 0 && !would_wait()) {
    poll(nullptr, 0, 10);  // no descriptor left: the connection waits
  }
  if (fd >= 0) clients_.push_back({.fd = fd, .until = Clock::now() + kForRequest});
}

bool Server::attend(Client& client) {
  return !client.answer.empty() && !client.ends ? write(client) : read(client);
}

bool Server::read(Client& client) {
  std::array<char, 4096> bytes{};
  const ssize_t got = recv(client.fd, bytes.data(), bytes.size(), 0);
  if (got < 0) return would_wait();
  if (got == 0) return false;
  if (client.ends) return true;
  client.request.append(bytes.data(), static_cast<std::size_t>(got));
  if (!is_complete(client.request)) return true;
  client.answer = answer_to(client.request, metrics_);
  client.until = Clock::now() + kForAnswer;
  return write(client);
}

bool Server::write(Client& client) {
  const ssize_t sent = send(client.fd,
                            client.answer.data() + client.sent,
                            client.answer.size() - client.sent,
                            MSG_NOSIGNAL);
  if (sent < 0) return would_wait();
  client.sent += static_cast<std::size_t>(sent);
  if (client.sent < client.answer.size()) return true;
  // A close with unread bytes would reset the connection and lose the answer.
  client.ends = true;
  client.until = Clock::now() + kForEnd;
  return shutdown(client.fd, SHUT_WR) == 0;
}

}  // namespace custash::live
