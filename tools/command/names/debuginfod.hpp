// SPDX-License-Identifier: MIT
// How long debuginfod's servers may be queried: libdw queries those that DEBUGINFOD_URLS names
// for debug files that are not on this machine. State: the time that they have taken in this
// run.
#pragma once

#include <elfutils/libdwfl.h>

namespace custash::names {

enum class Servers { Ask, Never };

// Before libdw is opened: it looks at the environment when it is.
void choose_servers(Servers servers);

// As dwfl_standard_find_debuginfo(), within the time.
int find_debuginfo(Dwfl_Module* module,
                   void** userdata,
                   const char* name,
                   Dwarf_Addr base,
                   const char* file,
                   const char* link,
                   GElf_Word checksum,
                   char** found);

// Of the session whose modules are looked for next.
void limit_servers(Dwfl* session);

}  // namespace custash::names
