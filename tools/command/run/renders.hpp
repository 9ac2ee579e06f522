// SPDX-License-Identifier: MIT
// Renders: while the program runs, its processes write snapshots as JSON, at a signal or when
// memory runs out, and leave a link to each in the folder. Renders makes the form that the user
// asked for and removes the JSON.
#pragma once

#include "tools/command/run/folder.hpp"

namespace custash::run {

class Renders {
 public:
  explicit Renders(const Folder& folder);  // from here on a new link raises SIGIO
  ~Renders();
  Renders(const Renders&) = delete;
  Renders& operator=(const Renders&) = delete;

  // All whose links are there. Says why one cannot be made; its JSON then stays.
  void make();

 private:
  const Folder& folder_;
  int watch_;  // of inotify; -1: none can be had, and make() at the end finds the links
};

}  // namespace custash::run
