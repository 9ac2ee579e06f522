// SPDX-License-Identifier: MIT
#include "tools/command/snapshot/found.hpp"

#include "interpose/process/printable.hpp"
#include "tools/command/snapshot/forms.hpp"

#include <algorithm>

namespace custash::snapshot {
namespace {

class Lines {
 public:
  explicit Lines(const Json& finding) : finding_(finding) {}

  void add(int depth, const std::string& line) {
    text_ += "custash: guard: " + std::string(2 * static_cast<std::size_t>(depth), ' ') +
             printable(line) + "\n";
  }

  void stack(const char* title, const Json& stack) {
    if (stack.empty()) return;
    if (*title != '\0') add(2, title);
    for (const std::string& frame : stack_text(finding_, stack))
      add(3, frame);
  }

  std::string take() { return std::move(text_); }

 private:
  const Json& finding_;
  std::string text_;
};

std::string text(const Json& object, const char* name) {
  return object.at(name).get<std::string>();
}

std::string finding_text(const Json& finding) {
  Lines out(finding);
  out.add(0, text(finding, "text"));
  if (const std::string doubt = text(finding, "doubt"); !doubt.empty()) out.add(1, doubt);
  for (const Json& suspect : finding.at("suspects")) {
    out.add(1, text(suspect, "text"));
    out.stack("allocated by", suspect.at("allocated_by"));
    out.stack("freed by", suspect.at("freed_by"));
  }
  // Streams: the stack of the free or of the use stands there already.
  if (finding.at("source") != "streams") out.stack("found in", finding.at("found_in"));
  if (!finding.at("work").empty())
    out.add(1,
            finding.at("certain").get<bool>() ? "used by, newest first"
                                              : "the last work, newest first");
  for (const Json& work : finding.at("work")) {
    out.add(2, text(work, "text"));
    out.stack("", work.at("by"));
  }
  return out.take();
}

}  // namespace

void for_each_stack(Json* report, const std::function<void(Json*, Json*)>& look) {
  for (Json& finding : report->at("findings")) {
    look(&finding, &finding.at("found_in"));
    for (Json& suspect : finding.at("suspects"))
      for (const char* const name : {"allocated_by", "freed_by"})
        look(&finding, &suspect.at(name));
    for (Json& work : finding.at("work"))
      look(&finding, &work.at("by"));
  }
}

const Json& frame_at(const Json& finding, const Json& id) {
  return finding.at("frames").at(id.get<std::size_t>());
}

std::vector<std::string> stack_text(const Json& finding, const Json& stack) {
  std::vector<std::string> out;
  for (const Json& id : stack)
    out.push_back(text_of(frame_of(frame_at(finding, id))));
  return out;
}

std::string findings_text(const Json& report) {
  std::string out;
  for (const Json& finding : report.at("findings"))
    out += finding_text(finding);
  return out;
}

std::size_t suppress(Json* report, const Suppressions& suppressions) {
  auto& findings = report->at("findings").get_ref<Json::array_t&>();
  return std::erase_if(findings, [&](const Json& finding) {
    const Json& frames = finding.at("frames");
    return std::any_of(frames.begin(), frames.end(), [&](const Json& frame) {
      return suppressions.match(frame_of(frame));
    });
  });
}

}  // namespace custash::snapshot
