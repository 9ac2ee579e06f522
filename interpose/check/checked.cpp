// SPDX-License-Identifier: MIT
#include "interpose/check/checked.hpp"

namespace custash::guards {
namespace {

std::string grouped(std::uint64_t count) {
  std::string text = std::to_string(count);
  for (std::size_t at = text.size(); at > 3; at -= 3)
    text.insert(at - 3, 1, ',');
  return text;
}

std::string counted(std::uint64_t count, const char* noun) {
  return grouped(count) + " " + noun + (count == 1 ? "" : "s");
}

std::string guards_text(const Checked& checked) {
  const ledger::Checks& sums = checked.sums;
  const std::uint64_t all = sums.guarded + sums.unguarded;
  const char* const were = sums.guarded == 1 ? " was guarded" : " were guarded";
  if (sums.unguarded == 0) return counted(all, "allocation") + were;
  return grouped(sums.guarded) + " of " + counted(all, "allocation") + were + " (" +
         (checked.unchecked.empty() ? "no room for " + grouped(sums.unguarded)
                                    : checked.unchecked) +
         ")";
}

std::string reason_of(const Checked& checked) {
  if (!checked.unchecked.empty()) return checked.unchecked;
  return checked.sums.unguarded != 0 ? "there was no room"
                                     : "the program allocated no memory that custash serves";
}

std::string nothing_text(const Checked& checked) {
  constexpr const char* kNothing = "nothing was checked";
  if (!checked.memory)
    return kNothing + (": " + (checked.unchecked.empty() ? "no work named device memory"
                                                         : checked.unchecked));
  // Copies, memsets and frees know unguarded blocks, too.
  return kNothing +
         std::string(checked.sums.unguarded != 0 ? " but copies, memsets and frees: " : ": ") +
         reason_of(checked);
}

std::string checks_text(const Checked& checked) {
  const ledger::Checks& sums = checked.sums;
  const bool saw_uses = checked.streams && sums.uses != 0;
  if (sums.found == 0 && !checked.any() && !saw_uses) return nothing_text(checked);
  std::string out = sums.found == 0 ? "nothing found" : grouped(sums.found) + " found";
  if (checked.memory)
    out += "; " + (checked.any() ? guards_text(checked)
                                 : "no allocation was guarded: " + reason_of(checked));
  if (saw_uses) out += "; the order of " + counted(sums.uses, "use") + " was checked";
  return out;
}

}  // namespace

std::string text_of(const Checked& checked) {
  const std::string text = checks_text(checked);
  return checked.suppressed == 0 ? text
                                 : text + "; " + grouped(checked.suppressed) + " suppressed";
}

}  // namespace custash::guards
