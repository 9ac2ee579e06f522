// SPDX-License-Identifier: MIT
// Server: answers HTTP requests on the loopback address, in one thread. A client has two
// seconds for its request and five for the answer. If there are too many, the oldest goes, so
// that clients that hold connections do not keep others out.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <poll.h>

namespace custash::live {

class Server {
 public:
  using Clock = std::chrono::steady_clock;

  // Port 0: any that is free. Throws where it cannot listen.
  Server(int port, std::function<std::string()> metrics);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  [[nodiscard]] int port() const { return port_; }

  // Serves until `until` or until `other` can be read.
  void serve(Clock::time_point until, int other);

 private:
  struct Client {
    int fd = -1;
    Clock::time_point until;
    std::string request;
    std::string answer;    // empty: the request is not complete
    std::size_t sent = 0;  // of the answer
    bool ends = false;     // all is sent; what the client still says is passed over
  };

  void accept_one();
  // False: it is over.
  bool attend(Client& client);
  bool read(Client& client);
  static bool write(Client& client);
  void drop_late();

  const std::function<std::string()> metrics_;
  int listener_ = -1;
  int port_ = 0;
  std::vector<Client> clients_;  // the oldest first
};

// ---- The little of HTTP that a scrape needs: one request without a body, one answer, the end.
// http.cpp; pure.

inline constexpr std::size_t kLongestRequest = 8192;

// Whether the head of the request is complete, or is too long to go on.
bool is_complete(std::string_view request);

// The whole answer to a request's head. `metrics` is called when they are requested. Only GET
// and HEAD of /metrics and of / are served, and only under a name of this machine: a page in a
// browser that has another name led here gets nothing.
std::string answer_to(std::string_view request, const std::function<std::string()>& metrics);

}  // namespace custash::live
