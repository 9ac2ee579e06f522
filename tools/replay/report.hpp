// SPDX-License-Identifier: MIT
// What a replay found out, as text for people, as JSON and as a picture. Pure.
#pragma once

#include "tools/replay/questions.hpp"
#include "tools/replay/replay.hpp"

#include <optional>

namespace custash::replay {

struct Smallest {
  Bytes custash = 0;  // 0: it fits on none
  Bytes bare = 0;
};

struct Report {
  const Trace* trace = nullptr;
  std::string through = "custash";
  bool modelled_time = true;  // else measured
  Outcome outcome;
  std::optional<ModelOutcome> native;
  std::optional<ModelOutcome> expandable;
  std::optional<Bytes> device;  // the device's size, where it was given
  std::optional<Smallest> smallest;
  std::vector<IdleMoment> idle;  // where asked for
};

std::string text_of(const Report& report);
std::string json_of(const Report& report);  // one object, no line end

// A level that is drawn across, with what it is.
struct Mark {
  std::string what;
  Bytes bytes = 0;
};

// Bytes in use and bytes held, event by event, as SVG.
std::string plot_of(const std::string& title,
                    const std::vector<Sample>& samples,
                    const std::vector<Mark>& marks = {});

}  // namespace custash::replay
