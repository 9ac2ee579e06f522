// SPDX-License-Identifier: MIT
// The command's own description, for shells and for man: made from what CLI11 parses by, so
// that it says what the command takes. No state.
#pragma once

#include <string>

#include <CLI/CLI.hpp>

namespace custash {

// A completion script. `shell` is bash, zsh or fish.
std::string completion(CLI::App& app, const std::string& shell);

// custash(1), in man's language.
std::string man_page(CLI::App& app);

}  // namespace custash
