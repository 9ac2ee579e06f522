// SPDX-License-Identifier: MIT
#include "tools/command/names/lines.hpp"

#include <cstdlib>
#include <filesystem>
#include <string_view>

#include <cxxabi.h>
#include <dwarf.h>

namespace custash::names {
namespace {

std::string readable(const char* symbol) {
  if (symbol == nullptr) return "";
  // Of other names the demangler makes types: "int" of a function i. A version is no part of a
  // name.
  const std::string_view given(symbol);
  if (!given.starts_with("_Z")) return std::string(given.substr(0, given.find('@')));
  // A copy that the compiler made of a function ("_Z3fooi.isra.0") is that function.
  const std::string whole(given.substr(0, given.find('.')));
  int status = 0;
  char* const text = abi::__cxa_demangle(whole.c_str(), nullptr, nullptr, &status);
  std::string out = status == 0 && text != nullptr ? text : symbol;
  std::free(text);
  return out;
}

std::string path_of(const char* file) {
  return file == nullptr ? "" : std::filesystem::path(file).lexically_normal().string();
}

// With its parameters; empty for a function that only one source file knows.
std::string full_name_of(Dwarf_Die* die) {
  Dwarf_Attribute attribute;
  for (const unsigned name : {DW_AT_linkage_name, DW_AT_MIPS_linkage_name}) {
    Dwarf_Attribute* const found = libdw()->dwarf_attr_integrate(die, name, &attribute);
    if (const char* const symbol =
            found == nullptr ? nullptr : libdw()->dwarf_formstring(found))
      return readable(symbol);
  }
  return "";
}

std::string function_of(Dwarf_Die* die) {
  if (std::string full = full_name_of(die); !full.empty()) return full;
  const char* const name = libdw()->dwarf_diename(die);
  return name == nullptr ? "" : name;
}

std::size_t number_of(Dwarf_Die* die, unsigned name) {
  Dwarf_Attribute attribute;
  Dwarf_Word value = 0;
  Dwarf_Attribute* const found = libdw()->dwarf_attr_integrate(die, name, &attribute);
  return found != nullptr && libdw()->dwarf_formudata(found, &value) == 0 ? value : 0;
}

// Some compilers write no index of addresses; then each unit is searched.
Dwarf_Die* unit_of(Dwfl_Module* module, Dwarf_Addr address, Dwarf_Addr* bias) {
  Dwarf_Die* unit = libdw()->dwfl_module_addrdie(module, address, bias);
  if (unit != nullptr) return unit;
  while ((unit = libdw()->dwfl_module_nextcu(module, unit, bias)) != nullptr)
    if (libdw()->dwarf_haspc(unit, address - *bias) == 1) return unit;
  return nullptr;
}

// Where `inlined` is called.
Line call_of(Dwarf_Die* unit, Dwarf_Die* inlined) {
  Line line;
  Dwarf_Files* files = nullptr;
  std::size_t count = 0;
  const std::size_t file = number_of(inlined, DW_AT_call_file);
  if (libdw()->dwarf_getsrcfiles(unit, &files, &count) == 0 && file < count)
    line.file = path_of(libdw()->dwarf_filesrc(files, file, nullptr, nullptr));
  line.line = static_cast<int>(number_of(inlined, DW_AT_call_line));
  return line;
}

bool is_function(int tag) {
  return tag == DW_TAG_subprogram || tag == DW_TAG_inlined_subroutine;
}

// Has no addresses of its own, but its members may.
bool is_holder(int tag, bool everywhere) {
  return tag == DW_TAG_namespace || tag == DW_TAG_class_type || tag == DW_TAG_structure_type ||
         tag == DW_TAG_union_type || (everywhere && tag == DW_TAG_subprogram);
}

// The functions that an address lies in, the outermost first: one that has code of its own, and
// what is inlined into it. (dwarf_getscopes() does not look into namespaces.)
bool find_functions(Dwarf_Die* within,
                    Dwarf_Addr address,
                    bool everywhere,
                    int depth,
                    std::vector<Dwarf_Die>* out) {
  constexpr int kDeepest = 100;
  Dwarf_Die die;
  if (depth > kDeepest || libdw()->dwarf_child(within, &die) != 0) return false;
  do {
    const int tag = libdw()->dwarf_tag(&die);
    if (libdw()->dwarf_haspc(&die, address) == 1) {
      if (tag == DW_TAG_subprogram) out->clear();
      if (is_function(tag)) out->push_back(die);
      find_functions(&die, address, everywhere, depth + 1, out);
      return true;
    }
    if (is_holder(tag, everywhere) && find_functions(&die, address, everywhere, depth + 1, out))
      return true;
  } while (libdw()->dwarf_siblingof(&die, &die) == 0);
  return false;
}

}  // namespace

std::vector<Line> lines_by_debug_information(Dwfl_Module* module, Dwarf_Addr address) {
  Dwarf_Addr bias = 0;
  Dwarf_Die* const unit = unit_of(module, address, &bias);
  if (unit == nullptr) return {};
  Line at;
  if (Dwarf_Line* const line = libdw()->dwarf_getsrc_die(unit, address - bias)) {
    at.file = path_of(libdw()->dwarf_linesrc(line, nullptr, nullptr));
    libdw()->dwarf_lineno(line, &at.line);
  }
  if (at.file.empty()) return {};
  std::vector<Dwarf_Die> functions;
  for (const bool everywhere : {false, true})
    if (functions.empty()) find_functions(unit, address - bias, everywhere, 0, &functions);
  std::vector<Line> out;
  for (auto function = functions.rbegin(); function != functions.rend(); ++function) {
    at.function = function_of(&*function);
    // The symbol table has the parameters of a static function that stands in a symbol of its
    // own.
    if (function + 1 == functions.rend() && full_name_of(&*function).empty()) {
      const std::vector<Line> symbol = line_by_symbol(module, address);
      if (!symbol.empty()) at.function = symbol.front().function;
    }
    out.push_back(at);
    at = call_of(unit, &*function);
  }
  for (const Line& line : out)
    if (line.function.empty() || line.file.empty()) return {};
  return out;
}

std::vector<Line> line_by_symbol(Dwfl_Module* module, Dwarf_Addr address) {
  GElf_Sym symbol{};
  GElf_Off offset = 0;
  const char* const name = libdw()->dwfl_module_addrinfo(
      module, address, &offset, &symbol, nullptr, nullptr, nullptr);
  if (name == nullptr || offset >= symbol.st_size) return {};  // behind it, not in it
  return {{readable(name), "", 0}};
}

}  // namespace custash::names
