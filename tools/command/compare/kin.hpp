// SPDX-License-Identifier: MIT
// The processes that a program has started, by /proc. Once custash is a subreaper, processes
// whose parent has ended become its children.
#pragma once

#include <vector>

#include <sys/types.h>

namespace custash::compare {

// Whether a process is `ancestor`, one of its group, or one that it has started.
bool descends_from(pid_t process, pid_t ancestor);

// Of this process; reaps those that have ended.
std::vector<pid_t> children();

// Kills and reaps the children that are not in `before`, and their children in turn.
void kill_children(const std::vector<pid_t>& before);

// Whether a child that is not in `before` still runs.
bool has_children(const std::vector<pid_t>& before);

// Reaps children that have ended, but for `keep`.
void reap(pid_t keep);

}  // namespace custash::compare
