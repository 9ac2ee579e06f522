// SPDX-License-Identifier: MIT
// elfutils' libdw, opened when it is first needed, so that the command starts without it.
// State: whether it is open.
#pragma once

#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>

namespace custash::names {

#define CUSTASH_LIBDW_FUNCTIONS(X) \
  X(dwarf_attr_integrate)          \
  X(dwarf_child)                   \
  X(dwarf_diename)                 \
  X(dwarf_filesrc)                 \
  X(dwarf_formstring)              \
  X(dwarf_formudata)               \
  X(dwarf_getsrc_die)              \
  X(dwarf_getsrcfiles)             \
  X(dwarf_haspc)                   \
  X(dwarf_lineno)                  \
  X(dwarf_linesrc)                 \
  X(dwarf_siblingof)               \
  X(dwarf_tag)                     \
  X(dwfl_begin)                    \
  X(dwfl_end)                      \
  X(dwfl_get_debuginfod_client)    \
  X(dwfl_module_addrdie)           \
  X(dwfl_module_addrinfo)          \
  X(dwfl_module_build_id)          \
  X(dwfl_module_getdwarf)          \
  X(dwfl_module_getelf)            \
  X(dwfl_module_nextcu)            \
  X(dwfl_report_elf)               \
  X(dwfl_report_end)               \
  X(dwfl_standard_find_debuginfo)

struct Libdw {
#define CUSTASH_MEMBER(name) decltype(&::name) name = nullptr;
  CUSTASH_LIBDW_FUNCTIONS(CUSTASH_MEMBER)
#undef CUSTASH_MEMBER
};

// Null where there is no libdw.so.1, or one that lacks a function.
const Libdw* libdw();

}  // namespace custash::names
