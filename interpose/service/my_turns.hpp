// SPDX-License-Identifier: MIT
// MyTurns: the turns of devices that this process has. A turn is a name that one process alone
// can have, and that goes with it.
// decision 23
#pragma once

#include "interpose/process/ranked_mutex.hpp"

#include <string>
#include <vector>

namespace custash::turns {

// All threads of the process share a turn: who allocates with it may have to wake the process.
class MyTurns {
 public:
  // The place in the list, or as TurnCalls::begin says.
  int begin(const std::string& name);
  void end(int place);

 private:
  struct Mine {
    std::string name;
    int fd = -1;
    int users = 0;  // 0: the place is empty
  };

  RankedMutex mutex_{HookRank::Turns};
  std::vector<Mine> list_ GUARDED_BY(mutex_);
};

MyTurns& my_turns();

}  // namespace custash::turns
