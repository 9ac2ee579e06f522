// SPDX-License-Identifier: MIT
// The processes under custash that this user may ask, as the command sees them: their services,
// and their pages in shared memory where the service does not answer.
#pragma once

#include "interpose/process/live_page.hpp"
#include "interpose/service/service_client.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace custash::live {

struct Seen {
  Page page{};
  bool answered = false;  // false: the page is what it last said
};

// Keeps the connections between looks, so that a look is one packet each way.
class Watch {
 public:
  // Every process of this user, by number. Those that do not answer within `patience` are taken
  // from their pages. One that did not answer the last time is hardly waited for, but for every
  // eighth time.
  std::vector<Seen> poll(std::chrono::milliseconds patience);

 private:
  struct Asked {
    service::Identity who;
    service::Connection connection;
    unsigned missed = 0;  // looks since it last answered
  };

  // Its answer of this look, if it comes in time.
  static std::optional<Seen> receive(Asked& each, service::Deadline until);

  std::vector<Asked> asked_;
};

// The service of one process; not open: `why` says it in a sentence.
service::Connection reach(pid_t process, std::string* why);

// Whether a signal or a debugger has stopped it, so that nothing of it answers.
bool is_stopped(pid_t process);

// By number where the user has no name.
std::string user_name(uid_t user);

// What a reply that is not Done means, for people.
std::string refusal(const service::Reply& reply, pid_t process);

}  // namespace custash::live
