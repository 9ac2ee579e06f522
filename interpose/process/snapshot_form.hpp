// SPDX-License-Identifier: MIT
// The forms that a snapshot's file may have, by the ending of its name. The library writes
// JSON; the command makes the other forms from it (decision 27). Pure.
#pragma once

#include <optional>
#include <string>

namespace custash::snapshot {

enum class Form { Json, Html, Pickle, Trace, Pprof, Folded };

// .json, .html, .pickle or .pkl, .pb.gz, .folded; .trace.json and .perfetto for Trace. Nothing
// for other endings.
std::optional<Form> form_of_ending(const std::string& path);

// Where the library writes that snapshot: "x.html.json" for "x.html", "x.json" for "x.json".
std::string json_path(const std::string& path);

// The name without that second ending: "x.html" for "x.html.json". Empty for other names.
std::string rendered_path(const std::string& json);

// One line for the log: how the user gets the requested file.
std::string rendering_hint(const std::string& json);

// The file of option snapshot_signal if option snapshot names none.
inline constexpr const char* kUsualPath = "custash.html";

inline constexpr const char* kOtherEnding =
    "its ending is none of .html, .json, .pickle, .trace.json, .pb.gz, .folded";

}  // namespace custash::snapshot
