// SPDX-License-Identifier: MIT
#include "interpose/service/service_client.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <utility>

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

namespace custash::service {
namespace {

constexpr std::size_t kMostText = 64U << 20U;  // of one reply: a hostile service ends there

// "0000000000000000: 00000002 00000000 00010000 0005 01 4711 @custash/1000/4711/0123…": what
// /proc/net/unix says of a socket. Of those with the name of a service only one listens: the
// connections to it have the name, too.
bool listens(const char* line) {
  constexpr unsigned kAccepts = 1U << 16U;  // __SO_ACCEPTCON
  unsigned flags = 0;
  return std::sscanf(line, "%*s %*s %*s %x", &flags) == 1 && (flags & kAccepts) != 0;
}

bool parse(const char* line, const std::string& prefix, Identity* out) {
  const char* at = std::strstr(line, prefix.c_str());
  if (at == nullptr || at == line || at[-1] != '@') return false;
  at += prefix.size();
  const char* const end = at + std::strcspn(at, "\n");
  const auto pid = std::from_chars(at, end, out->pid);
  if (pid.ec != std::errc() || pid.ptr == end || *pid.ptr != '/') return false;
  const auto nonce = std::from_chars(pid.ptr + 1, end, out->nonce, 16);
  return nonce.ec == std::errc() && nonce.ptr == end;
}

// Any process may hold the name, so the name proves nothing.
bool wait_readable(int fd, Deadline until) {
  for (;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    pollfd item{fd, POLLIN, 0};
    const int ready = poll(&item, 1, static_cast<int>(std::max<long>(left.count(), 0)));
    if (ready > 0) return true;
    if (ready == 0 || errno != EINTR) return false;
  }
}

struct Packet {
  Header header;
  std::string text;
};

bool receive_packet(int fd, Packet* out, std::vector<int>* files) {
  std::array<char, kMaxReply> bytes{};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMaxFiles * sizeof(int))> control{};
  iovec part{bytes.data(), bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t got = recvmsg(fd, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  for (cmsghdr* c = got < 0 ? nullptr : CMSG_FIRSTHDR(&message); c != nullptr;
       c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int file = -1;
      std::memcpy(&file, CMSG_DATA(c) + i * sizeof file, sizeof file);
      files->push_back(file);
    }
  }
  if (got < static_cast<ssize_t>(sizeof(Header)) ||
      (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0)
    return false;
  std::memcpy(&out->header, bytes.data(), sizeof(Header));
  const std::size_t size = static_cast<std::size_t>(got) - sizeof(Header);
  out->text.assign(bytes.data() + sizeof(Header), size);
  return out->header.magic == kMagic && out->header.version == kVersion &&
         out->header.size == size;
}

}  // namespace

std::vector<Identity> find_all() {
  std::vector<Identity> found;
  std::FILE* list = std::fopen("/proc/net/unix", "re");
  if (list == nullptr) return found;
  const std::string prefix = "custash/" + std::to_string(geteuid()) + "/";
  constexpr std::size_t kMuch = 65536;  // any user may bind thousands of names
  (void)std::setvbuf(list, nullptr, _IOFBF, kMuch);
  std::array<char, 512> line{};
  while (std::fgets(line.data(), line.size(), list) != nullptr) {
    Identity who;
    if (parse(line.data(), prefix, &who) && listens(line.data())) found.push_back(who);
  }
  (void)std::fclose(list);
  return found;
}

bool is_own_user(int fd) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid();
}

// Every user may fill the queue of a socket that has an abstract name.
Connection::Connection(const Identity& who, Deadline until) {
  constexpr timespec kNap{0, 1'000'000};
  const AbstractAddress name(name_of(geteuid(), who));
  fd_ = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd_ < 0) return;
  int refused = connect(fd_, name.get(), name.size());
  while (refused != 0 && errno == EAGAIN && std::chrono::steady_clock::now() < until) {
    nanosleep(&kNap, nullptr);
    refused = connect(fd_, name.get(), name.size());
  }
  if (refused == 0 && is_own_user(fd_)) return;
  close(fd_);
  fd_ = -1;
}

Connection::~Connection() {
  if (fd_ >= 0) close(fd_);
}

Connection::Connection(Connection&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {
}

Connection& Connection::operator=(Connection&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

bool Connection::ended() const {
  pollfd item{fd_, 0, 0};  // which still reports the end
  return poll(&item, 1, 0) > 0;
}

bool Connection::send(std::string_view request) {
  if (fd_ < 0 || request.size() > kMaxRequest - sizeof(Header)) return false;
  Header header;
  header.size = static_cast<std::uint32_t>(request.size());
  std::string packet(reinterpret_cast<const char*>(&header), sizeof header);
  packet += request;
  return ::send(fd_, packet.data(), packet.size(), MSG_NOSIGNAL | MSG_DONTWAIT) ==
         static_cast<ssize_t>(packet.size());
}

Reply Connection::receive(Deadline until) {
  Reply reply;
  Packet packet;
  do {
    if (fd_ < 0 || !wait_readable(fd_, until) || !receive_packet(fd_, &packet, &reply.files) ||
        reply.text.size() + packet.text.size() > kMostText) {
      for (const int file : reply.files)
        close(file);
      return {};
    }
    reply.text += packet.text;
  } while (packet.header.last == 0);
  reply.heard = true;
  reply.status = packet.header.status;
  return reply;
}

}  // namespace custash::service
