// SPDX-License-Identifier: MIT
// The command line of replay: its help, and how its words are read. `custash` has this without
// the rest of replay.
#include "tools/replay/command.hpp"
#include "tools/text.hpp"

#include <unistd.h>

namespace custash::replay {

const char* const kHelp =
    "Traces are text (docs/trace-format.md; custash run --record makes them) or PyTorch\n"
    "memory snapshots, either also as .xz. The command reads snapshots without running\n"
    "code in them.\n"
    "\n"
    "A trace does not record work. So the replay submits one launch after each allocation,\n"
    "on the stream that the event names; it touches the memory. Times on the simulator are\n"
    "modelled from what an H200's driver takes for each kind and size of call.\n"
    "\n"
    "Exit status: 0; 1 if a trace cannot be read, does not fit or its replay goes wrong;\n"
    "125 for a wrong option.\n";

namespace {

// A word that begins with a digit and names no file is a size, even if a wrong one.
bool means_size(const std::string& word) {
  return size_of(word) || (!word.empty() && word.front() >= '0' && word.front() <= '9' &&
                           access(word.c_str(), F_OK) != 0);
}

}  // namespace

std::vector<std::string> prepared(std::vector<std::string> words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] != "--capacity") continue;
    const bool has_size = i + 1 < words.size() && means_size(words[i + 1]);
    words[i] += std::string("=") + (has_size ? words[i + 1] : kSearch);
    if (has_size) words.erase(words.begin() + static_cast<std::ptrdiff_t>(i) + 1);
  }
  return words;
}

}  // namespace custash::replay
