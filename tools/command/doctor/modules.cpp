// SPDX-License-Identifier: MIT
#include "tools/command/doctor/modules.hpp"

#include "tools/command/doctor/risks.hpp"
#include "tools/command/elf.hpp"

#include <cstring>
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
  if (is_named(module, "libcudart.so"))
    return {
        "the shared CUDA runtime", "served at the runtime's names and below them", by_look_up};
  const std::vector<std::string> all_needed = needed_of(text);
  // First: debug information may hold the mark, too.
  for (const std::string& needed : all_needed) {
    if (needed.rfind("libcudart.so", 0) == 0)
      return {"linked with " + needed, "served at its names", "served below its names"};
  }
  if (has(text, kRuntimeMark)) return {"holds a static CUDA runtime", by_look_up, by_look_up};
  for (const std::string& needed : all_needed) {
    const std::string at_names = "served at the driver's names";
    if (needed.rfind("libcuda.so", 0) == 0)
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
        {Level::Note, module.path, "custash is linked in", "Do not preload it as well."});
    if (form == Form::None)
      form = shows(contents.text(), "dlsym") ? Form::Linked : Form::LinkedWithoutDlsym;
  }
  return form;
}

bool examine_modules(const std::vector<Module>& modules, Form form, Findings* findings) {
  bool to_cuda = false;
  for (const Module& module : modules) {
    if (is_named(module, "libcustash.so")) continue;
    if (is_named(module, "libcuda.so")) {  // the driver's own finding
      to_cuda = true;
      continue;
    }
    const Contents contents(module.file);
    const Way way = way_of(module, contents.text());
    if (way.how.empty()) continue;
    to_cuda = true;
    if (!is_named(module, "libcudart.so"))
      examine_risks(module.path, contents.text(), findings);
    // Custash inside the same module is called without a look-up.
    if (form != Form::LinkedWithoutDlsym || !holds_custash(contents.text()))
      findings->push_back(finding_of(module, way, form));
  }
  return to_cuda;
}

}  // namespace custash::doctor
