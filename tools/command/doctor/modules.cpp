// SPDX-License-Identifier: MIT
#include "tools/command/doctor/examine.hpp"
#include "tools/command/elf.hpp"

#include <cstring>
#include <filesystem>
#include <string_view>

namespace custash::doctor {
namespace {

// Only NVIDIA's runtime has a name for this code, wherever it was linked into.
constexpr std::string_view kRuntimeMark = "cudaErrorSoftwareValidityNotEstablished";

bool has(std::string_view text, std::string_view what) {
  return memmem(text.data(), text.size(), what.data(), what.size()) != nullptr;
}

bool is_named(const Module& module, std::string_view name) {
  return module.path.compare(module.path.rfind('/') + 1, name.size(), name) == 0;
}

// auditwheel renames what it copies into a wheel: libcudart-0a1b2c3d.so.13.
bool is_library(std::string_view file, const std::string& name) {
  return file.rfind(name + ".so", 0) == 0 ||
         (file.rfind(name + "-", 0) == 0 && has(file, ".so"));
}

bool is_library(const Module& module, const std::string& name) {
  return is_library(std::string_view(module.path).substr(module.path.rfind('/') + 1), name);
}

bool holds_custash(std::string_view text) {
  return has(text, "CUSTASH_CONF") && has(text, "custash_malloc");
}

// How a module comes to CUDA, and where custash serves it in each form. The hooks are those of
// docs/semantics.md.
struct Way {
  std::string how;  // empty: it does not
  std::string preloaded;
  std::string linked;
  bool by_dlsym = true;
};

Way way_of(const Module& module, std::string_view text) {
  const std::string by_look_up = "served through its look-up of the driver";
  if (is_library(module, "libcudart"))
    return {
        "the shared CUDA runtime", "served at the runtime's names and below them", by_look_up};
  const std::vector<std::string> all_needed = needed_of(text);
  // First: debug information may hold the mark, too.
  for (const std::string& needed : all_needed) {
    if (is_library(needed, "libcudart"))
      return {"linked with " + needed, "served at its names", "served below its names"};
  }
  if (has(text, kRuntimeMark)) return {"holds a static CUDA runtime", by_look_up, by_look_up};
  for (const std::string& needed : all_needed) {
    const std::string at_names = "served at the driver's names";
    if (is_library(needed, "libcuda"))
      return {"linked with the driver", at_names, at_names, false};
  }
  if (has(text, "libcuda.so") && has(text, "cuInit"))
    return {"opens the driver by itself",
            "served through its look-ups",
            "served through its look-ups"};
  return {};
}

Finding finding_of(const Module& module, const Way& way, Form form) {
  switch (form) {
    case Form::None:
      return {Level::Note, module.path, way.how, ""};
    case Form::Preloaded:
      return {Level::Ok, module.path, way.how + "; " + way.preloaded, ""};
    case Form::LinkedWithoutDlsym:
      if (way.by_dlsym)
        return {Level::Problem,
                module.path,
                way.how + "; not served: its look-ups bypass custash",
                "Link the program again, with the flags of this version's pkg-config or CMake "
                "file."};
      [[fallthrough]];
    case Form::Linked:
      break;
  }
  return {Level::Ok, module.path, way.how + "; " + way.linked, ""};
}

// A driver that is not this machine's: a package's copy of it, or the toolkit's stub. `driver`:
// this machine's, which has a finding of its own.
void examine_copy(const Module& module, const std::string& driver, Findings* findings) {
  std::error_code error;
  if (driver.empty() || std::filesystem::equivalent(module.file, driver, error) || error)
    return;
  findings->push_back(
      {Level::Warning,
       module.path,
       "a copy of the driver, or the toolkit's stub; this machine's driver is " + driver,
       "Delete it from its package: a stub fails, and so does a copy of another "
       "version. Custash calls one driver only."});
}

}  // namespace

Form form_of(const std::vector<Module>& modules, Findings* findings) {
  Form form = Form::None;
  for (const Module& module : modules) {
    if (is_named(module, "libcustash.so")) {
      form = Form::Preloaded;
      findings->push_back({Level::Ok, module.path, "custash", ""});
      continue;
    }
    const Contents contents(module.file);
    if (!holds_custash(contents.text())) continue;
    findings->push_back(
        {Level::Note,
         module.path,
         "custash is linked in",
         "Do not preload it as well. To count what it serves, set CUSTASH_CONF=summary:true."});
    if (form == Form::None)
      form = shows(contents.text(), "dlsym") ? Form::Linked : Form::LinkedWithoutDlsym;
  }
  return form;
}

bool examine_modules(const std::vector<Module>& modules,
                     Form form,
                     const std::string& driver,
                     Findings* findings) {
  bool to_cuda = false;
  for (const Module& module : modules) {
    if (is_named(module, "libcustash.so")) continue;
    if (is_library(module, "libcuda")) {
      to_cuda = true;
      examine_copy(module, driver, findings);
      continue;
    }
    const Contents contents(module.file);
    const Way way = way_of(module, contents.text());
    if (way.how.empty()) continue;
    to_cuda = true;
    if (!is_library(module, "libcudart")) examine_risks(module.path, contents.text(), findings);
    // Custash inside the same module is called without a look-up.
    if (form != Form::LinkedWithoutDlsym || !holds_custash(contents.text()))
      findings->push_back(finding_of(module, way, form));
  }
  return to_cuda;
}

}  // namespace custash::doctor
