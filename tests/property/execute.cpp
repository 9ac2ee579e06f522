// SPDX-License-Identifier: MIT
#include "tests/property/execute.hpp"

#include "tests/property/baton.hpp"
#include "tests/property/pinned_world.hpp"
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
         (c.pinned_limit != 0 ? ",pinned_limit:" + std::to_string(c.pinned_limit) : "") +
         ",pinned_decay:" + std::to_string(c.pinned_decay) +
         (c.guard.any() ? ",guard:1/" + std::to_string(c.guard.one_in) : "") +
         " context_events=" + (setup.context_events ? "yes" : "no") +
         " fast=" + (setup.fast ? "yes" : "no") + " sleeps=" + (setup.sleeps ? "yes" : "no") +
         " registered=" + (setup.registered ? "yes" : "no") +
         " tight=" + (setup.tight ? "yes" : "no") +
         (setup.store != nullptr ? " sleep_pinned=yes" : "") +
         " advance=" + (setup.advance == sim::Advance::Told ? "told" : "seeded") +
         " schedule=" + std::to_string(setup.seed);
}

std::unique_ptr<WorldBase> world_of(const Program& program,
                                    const Setup& setup,
                                    sim::RaceDetector& detector) {
  if (program.pinned) return std::make_unique<PinnedWorld>(setup, detector);
  return std::make_unique<World>(setup, detector);
}

Outcome execute(const Program& program, const Setup& setup) {
  sim::RaceDetector& detector = sim::listening_detector();
  Outcome out;
  out.codes.assign(program.commands.size(), CUDA_SUCCESS);
  const std::unique_ptr<WorldBase> world = world_of(program, setup, detector);
  sim::set_entry_check(Baton::on_entry);
  Baton(program, *world, detector, out).run();
  // The first failure is the one that is reported, so races come before what they may lead to.
  const auto check_races = [&] {
    // Where an allocation failed, what should have ordered the program may be missing with it.
    const bool wrong =
        setup.tight ? detector.count(sim::Report::AllocatorFault) != 0 : !detector.clean();
    if (wrong) world->fail(Violation::Race, detector.text());
  };
  check_races();
  world->finish();
  sim::set_entry_check(nullptr);
  check_races();
  if (Baton::lock_was_held())
    world->fail(Violation::LockHeld, "the driver was entered with a lock held");
  out.kind = world->kind();
  out.text = world->text();
  return out;
}

}  // namespace custash::property
