// SPDX-License-Identifier: MIT
// Renders: while the program runs, its processes write snapshots as JSON, at a signal or when
// memory runs out, and leave a link to each in the folder. Renders makes the form that the user
// asked for and removes the JSON.
#pragma once

#include "tools/command/run/folder.hpp"

#include <functional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace custash::run {

class Renders {
 public:
  explicit Renders(const Folder& folder);  // from here on a new link raises SIGIO
  ~Renders();
  Renders(const Renders&) = delete;
  Renders& operator=(const Renders&) = delete;

  // Begins all whose links are there, in a process of their own: signals to the program do not
  // wait for it, and what ends it does not end the program.
  void make();
  // Waits for all. Reports each that could not be made, and keeps its JSON.
  void finish();

 private:
  struct Render {
    std::string json;
    pid_t process;  // whose snapshot it is
  };

  struct Begun {
    pid_t child;
    std::vector<Render> renders;
  };

  std::vector<Render> take_links();
  void end_those(const std::function<bool(pid_t child, int* status)>& has_ended);

  const Folder& folder_;
  int watch_;  // of inotify; -1: none is available, and make() at the end finds the links
  std::vector<Begun> begun_;
};

}  // namespace custash::run
