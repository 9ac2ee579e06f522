// SPDX-License-Identifier: MIT
#include "interpose/service/service_loop.hpp"

#include "allocator/base/rule.hpp"
#include "interpose/process/process.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <pthread.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace custash::service {
namespace {

constexpr std::size_t kMostClients = 512;
constexpr std::chrono::milliseconds kSlowClient{500};  // that does not read what it asked for
// A socket that the program closes ends only when no poll() waits at it any more.
constexpr std::chrono::seconds kBetweenChecks{1};
constexpr std::chrono::seconds kMourning{
    2};  // where the kernel does not report a process's end

bool wait_writable(int fd, std::chrono::steady_clock::time_point until) {
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
  pollfd item{fd, POLLOUT, 0};
  return left.count() > 0 && poll(&item, 1, static_cast<int>(left.count())) > 0;
}

// One packet; the files with it.
bool send_packet(int fd,
                 const Header& header,
                 std::string_view text,
                 const std::vector<int>& files,
                 std::chrono::steady_clock::time_point until) {
  std::array<iovec, 2> parts{iovec{const_cast<Header*>(&header), sizeof header},
                             iovec{const_cast<char*>(text.data()), text.size()}};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMaxFiles * sizeof(int))> control{};
  if (!files.empty()) {
    const std::size_t bytes = files.size() * sizeof(int);
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(bytes);
    cmsghdr* const c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(bytes);
    std::memcpy(CMSG_DATA(c), files.data(), bytes);
  }
  do {
    if (sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) return true;
  } while (errno == EINTR || (errno == EAGAIN && wait_writable(fd, until)));
  return false;
}

bool send_answer(int fd, const Answer& answer) {
  const auto until = std::chrono::steady_clock::now() + kSlowClient;
  constexpr std::size_t kPiece = kMaxReply - sizeof(Header);
  std::string_view left = answer.text;
  static const std::vector<int> none;
  bool first = true;
  do {
    const std::string_view piece = left.substr(0, kPiece);
    left.remove_prefix(piece.size());
    Header header;
    header.status = answer.status;
    header.size = static_cast<std::uint32_t>(piece.size());
    header.last = left.empty() ? 1 : 0;
    if (!send_packet(fd, header, piece, first ? answer.files : none, until)) return false;
    first = false;
  } while (!left.empty());
  return true;
}

// The form of a valid request; anything else ends the connection.
bool receive_request(int fd, std::string* out, bool* nothing) {
  std::array<char, kMaxRequest> bytes{};
  iovec part{bytes.data(), bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  // No room for control data: the kernel closes descriptors that somebody sends us.
  const ssize_t got = recvmsg(fd, &message, MSG_DONTWAIT);
  *nothing = got < 0 && (errno == EAGAIN || errno == EINTR);
  Header header;
  if (got < static_cast<ssize_t>(sizeof header) || (message.msg_flags & MSG_TRUNC) != 0)
    return false;
  std::memcpy(&header, bytes.data(), sizeof header);
  const std::size_t size = static_cast<std::size_t>(got) - sizeof header;
  if (header.magic != kMagic || header.version != kVersion || header.size != size) return false;
  out->assign(bytes.data() + sizeof header, size);
  return true;
}

// Whether the process answers, and whom. What takes the loader's lock comes before the verb.
bool prepare(const Verb& verb, Answer* answer) {
  const Allocator* const core = process::running();
  answer->status = ReplyStatus::NotNow;
  if (core == nullptr) return false;
  answer->status = ReplyStatus::Refused;
  if (!verb.for_peers && !core->config().control) {
    answer->text = "it has the option control:false";
    return false;
  }
  if (verb.prepare != nullptr && !verb.prepare(&answer->text)) return false;
  answer->status = ReplyStatus::Done;
  return true;
}

void run(const Verb& verb, Session& session, std::string_view arguments, Answer* answer) {
  // In this order, because exit hides the core first and then checks whether a verb runs.
  VerbScope scope;
  Allocator* const core = scope.enter() ? process::core() : nullptr;
  if (core == nullptr) {
    answer->status = ReplyStatus::NotNow;
  } else {
    verb.run(*core, session, arguments, answer);
  }
}

Answer answer_to(Session& session, std::string_view request) {
  Answer answer;
  const std::size_t blank = std::min(request.find(' '), request.size());
  const std::string_view word = request.substr(0, blank);
  const std::string_view arguments =
      blank < request.size() ? request.substr(blank + 1) : std::string_view();
  const auto all = verbs();
  const auto verb =
      std::find_if(all.begin(), all.end(), [&](const Verb& each) { return each.name == word; });
  if (verb == all.end()) {
    answer.status = ReplyStatus::UnknownVerb;
    return answer;
  }
  try {
    if (prepare(*verb, &answer)) run(*verb, session, arguments, &answer);
    if (answer.text_later) answer.text = answer.text_later();
  } catch (...) {  // no memory, and nothing half done: verbs see to that
    answer.status = ReplyStatus::NotNow;
    answer.text.clear();
  }
  return answer;
}

bool same_user(int fd, pid_t* peer) {
  ucred who{};
  socklen_t size = sizeof who;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) != 0) return false;
  *peer = who.pid;
  return who.uid == geteuid();
}

// Readable once the process is gone; -1 on a kernel before 5.3.
int watch_process(pid_t process) {
  return process <= 0 ? -1 : static_cast<int>(syscall(SYS_pidfd_open, process, 0));
}

}  // namespace

EventLoop::EventLoop(const Identity& who, const Secret& secret) : who_(who), secret_(secret) {
  clients_.reserve(kMostClients);
  waiting_.reserve(kMostClients + 1);
}

bool EventLoop::listen() {
  descriptors().drop(listener_);
  listener_ = -1;
  const AbstractAddress name(name_of(geteuid(), who_));
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return false;
  if (bind(fd, name.get(), name.size()) == 0 && ::listen(fd, 128) == 0) {
    listener_ = descriptors().keep(fd);
    return true;
  }
  close(fd);
  return false;
}

void EventLoop::give_up() {
  descriptors().close_own(listener_);
}

int EventLoop::poll_timeout() const {
  auto soonest = Clock::now() + kBetweenChecks;
  for (const Client& client : clients_)
    if (client.gone) soonest = std::min(soonest, client.until);
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(soonest - Clock::now());
  return static_cast<int>(std::max<long>(left.count(), 0));
}

// What is due now and then. Returns the milliseconds until it is due again; -1: never.
int EventLoop::tick_now() {
  if (!ticks()) return -1;
  if (const auto now = Clock::now(); now >= next_tick_) {
    int wait = 1000;
    try {
      VerbScope scope;
      Allocator* const core = scope.enter() ? process::core() : nullptr;
      if (core != nullptr) wait = tick(*core);
    } catch (...) {  // no memory: later
    }
    next_tick_ = Clock::now() + std::chrono::milliseconds(wait);
  }
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(next_tick_ - Clock::now());
  return static_cast<int>(std::max<long>(left.count(), 0));
}

void EventLoop::run() {
  pthread_setname_np(pthread_self(), "custash");
  for (;;) {
    if (!descriptors().is_own(listener_)) (void)listen();
    waiting_.clear();
    waiting_.push_back({listener_, POLLIN, 0});
    for (const Client& client : clients_)
      waiting_.push_back({client.fd, POLLIN, 0});  // -1 is passed over
    int timeout = poll_timeout();
    if (const int tick = tick_now(); tick >= 0) timeout = std::min(timeout, tick);
    if (poll(waiting_.data(), waiting_.size(), timeout) < 0 && errno != EINTR) {
      constexpr timespec kPause{0, 100'000'000};
      nanosleep(&kPause, nullptr);
      continue;
    }
    const std::size_t known = clients_.size();
    for (std::size_t i = known; i-- > 0;) {
      Client& client = clients_[i];
      if (!is_over(client, waiting_[i + 1].revents != 0)) continue;
      if (client.session.holds) session_ended(client.session);
      descriptors().close_own(client.fd);
      client = clients_.back();
      clients_.pop_back();
    }
    if (waiting_.front().revents != 0 && descriptors().is_own(listener_)) accept_one();
  }
}

void EventLoop::accept_one() {
  const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd < 0) {
    if (errno != EMFILE && errno != ENFILE) return;
    constexpr timespec kPause{0, 10'000'000};  // the program has no descriptor left for us
    nanosleep(&kPause, nullptr);
    return;
  }
  Client client;
  if (clients_.size() >= kMostClients || !same_user(fd, &client.session.peer)) {
    close(fd);
    return;
  }
  client.fd = descriptors().keep(fd);
  client.session.id = next_session_++;
  clients_.push_back(client);
}

bool EventLoop::is_over(Client& client, bool event) {
  if (client.gone) return (event && is_dead(client)) || Clock::now() >= client.until;
  if (!event) return false;
  return (!descriptors().is_own(client.fd) || !serve(client)) && hang_up(client);
}

bool EventLoop::serve(Client& client) {
  std::string request;
  bool nothing = false;
  try {
    if (!receive_request(client.fd, &request, &nothing)) return nothing;
    const Answer answer = answer_to(client.session, request);
    const bool sent = send_answer(client.fd, answer);
    for (const int file : answer.files)
      close(file);
    return sent;
  } catch (...) {  // no memory for the request itself
    return false;
  }
}

// A dying process closes its sockets before the driver has ended its work on the device. So its
// memory is released only when the process is gone.
bool EventLoop::hang_up(Client& client) {
  if (!client.session.holds || client.session.leaving) return true;
  client.gone = true;
  watch(client,
        holds(Rule::importers_live_until_their_process_ends)
            ? watch_process(client.session.peer)
            : -1);
  return false;
}

void EventLoop::watch(Client& client, int process) {
  descriptors().close_own(client.fd);
  client.fd = process < 0 ? -1 : descriptors().keep(process);
  // A living process may have the memory open, even after its connection ended.
  client.until = process < 0 ? Clock::now() + kMourning : Clock::time_point::max();
}

// What could be read may be a file of the program's: the process is queried again.
bool EventLoop::is_dead(Client& client) {
  const int process = watch_process(client.session.peer);
  pollfd ended{process, POLLIN, 0};
  const bool dead = process < 0 ? errno == ESRCH : poll(&ended, 1, 0) != 0;
  watch(client, process);
  return dead;
}

}  // namespace custash::service
