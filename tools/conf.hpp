// SPDX-License-Identifier: MIT
// Options of the library as the command is given them: checked, and listed. Pure.
#pragma once

#include "allocator/base/config.hpp"

#include <string>
#include <string_view>

namespace custash {

// What a complaint of the library's reader says, without "custash: CUSTASH_CONF: " and ";
// ignored".
std::string mistake_in(std::string_view complaint);

// What `option` ("--conf") was given. Throws where the library would ignore a part of it.
Config require_conf(std::string_view option, std::string_view text);

// Every option of the library, a line "key:value" each, and where its value is from: the
// environment's CUSTASH_CONF, or `given` on a command line, which wins. "" without either.
std::string options_in_force(std::string_view environment, std::string_view given);

// As people read them, written from the table that the library parses with: a page in Markdown
// (docs/options.md is its output, a lint test compares) and a list for --help.
std::string options_page();
std::string options_help(bool advanced);

}  // namespace custash
