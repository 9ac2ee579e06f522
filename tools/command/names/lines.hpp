// SPDX-License-Identifier: MIT
// What a module's debug information and symbols say of an address. Needs libdw; pure.
#pragma once

#include "tools/command/names/libdw.hpp"
#include "tools/command/names/namer.hpp"

namespace custash::names {

// As Namer::lines_at() gives them. `address` is one of the module's session.
std::vector<Line> lines_by_debug_information(Dwfl_Module* module, Dwarf_Addr address);
std::vector<Line> line_by_symbol(Dwfl_Module* module, Dwarf_Addr address);

}  // namespace custash::names
