// SPDX-License-Identifier: MIT
// Witness: a process of our group that only reports which signals it gets. What it
// gets was sent to the whole group, so the program has it already and must not get it a second
// time.
#pragma once

#include <sys/types.h>

namespace custash::run {

class Witness {
 public:
  Witness();   // signals are blocked by then; without one saw() is always false
  ~Witness();  // ends it
  Witness(const Witness&) = delete;
  Witness& operator=(const Witness&) = delete;

  // This signal came to the group just now, or will within some milliseconds.
  bool saw(int signal);

 private:
  pid_t process_ = -1;
  int told_ = -1;
  long long last_[65] = {};  // when each was seen
};

}  // namespace custash::run
