// SPDX-License-Identifier: MIT
// The call sites of a snapshot by their text, which is what two snapshots have in common. Pure.
#pragma once

#include "interpose/history/leak_text.hpp"
#include "tools/command/snapshot/read.hpp"
#include "tools/command/snapshot/suppressions.hpp"

#include <map>
#include <string>
#include <vector>

namespace custash::snapshot {

struct SiteSum {
  std::int64_t blocks = 0;
  std::int64_t bytes = 0;
  bool growing = false;
};

// What lives, by call site; sites with the same text are one.
std::map<std::string, SiteSum> live_sites(const Json& snapshot);

struct SiteChange {
  std::string place;
  SiteSum before;
  SiteSum after;
};

// Sites that hold more or less than before, the largest change first.
std::vector<SiteChange> changes(const Json& before, const Json& after);

std::string as_text(const std::vector<SiteChange>& changes, unsigned most);
std::string as_json(const std::vector<SiteChange>& changes);

// Takes out the sites that a suppression matches; how many of them hold memory.
std::size_t suppress_sites(Json* snapshot, const Suppressions& suppressions);

// What lives, the most first. `title`: "allocated in app.json".
std::string leaks_text(const Json& snapshot,
                       const std::string& title,
                       unsigned most,
                       const leaks::Older& older = {});

// What the snapshot's devices hold beyond its call sites; nothing where it has no such
// counters.
leaks::Older older_of(const Json& snapshot);

}  // namespace custash::snapshot
