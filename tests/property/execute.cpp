// SPDX-License-Identifier: MIT
#include "tests/property/execute.hpp"

#include "tests/property/baton.hpp"
#include "tests/property/world.hpp"

namespace custash::property {

const char* name_of(Violation kind) {
  static const char* const kNames[] = {
      "none", "race", "hang", "code", "overlap", "leak", "statistics", "lock-held", "crash"};
  return kNames[static_cast<int>(kind)];
}

std::string to_string(const Setup& setup) {
  if (setup.bare) return "bare";
  const Config& c = setup.config;
  std::string text = "slabs_after=";
  text +=
      std::to_string(c.slabs_after) + " unasked_results=" + std::to_string(c.unasked_results);
  return text + " backing:" + (c.backing == Backing::Driver ? "driver" : "vmm") +
         ",single_stream:" + (c.single_stream ? "true" : "false") +
         ",run_ahead:" + std::to_string(c.run_ahead_percent) +
         (c.guard.any() ? ",guard:1/" + std::to_string(c.guard.one_in) : "") +
         " context_events=" + (setup.context_events ? "yes" : "no") +
         " fast=" + (setup.fast ? "yes" : "no") + " sleeps=" + (setup.sleeps ? "yes" : "no") +
         " tight=" + (setup.tight ? "yes" : "no") +
         (setup.store != nullptr ? " sleep_pinned=yes" : "") +
         " advance=" + (setup.advance == sim::Advance::Told ? "told" : "seeded") +
         " schedule=" + std::to_string(setup.seed);
}

Outcome execute(const Program& program, const Setup& setup) {
  return run_watched<World>(program, setup);
}

}  // namespace custash::property
