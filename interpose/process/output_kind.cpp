// SPDX-License-Identifier: MIT
#include "interpose/process/output_kind.hpp"

#include <cstdio>
#include <cstring>
#include <string>

namespace custash::output {
namespace {

constexpr std::string_view kSnapshotMark = "{\"format\":\"custash snapshot 1\"";
constexpr std::string_view kGuardReportMark = "{\"format\":\"custash guard report 2\"";

bool begins(std::string_view text, std::string_view with) {
  return text.substr(0, with.size()) == with;
}

// "t_ns thread op id size stream" (docs/trace-format.md).
bool begins_with_event(std::string_view text) {
  const std::string line(text.substr(0, text.find('\n')));
  char op = 0;
  int end = -1;
  const int found = std::sscanf(
      line.c_str(), "%*20[0-9] %*20[0-9] %c %*20[0-9] %*20[0-9] %*20[-0-9]%n", &op, &end);
  return found == 1 && end == static_cast<int>(line.size()) && op != '\0' &&
         std::strchr("afhg", op) != nullptr;
}

}  // namespace

Kind kind_of(std::string_view beginning) {
  const std::string_view text = beginning.substr(0, kBeginning);
  if (begins(text, kRecordingMark) || begins_with_event(text)) return Kind::Recording;
  if (begins(text, kSnapshotMark)) return Kind::Snapshot;
  if (begins(text, kGuardReportMark)) return Kind::GuardReport;
  return Kind::None;
}

const char* name_of(Kind kind) {
  constexpr const char* kNames[] = {"a custash file",
                                    "a custash recording",
                                    "a custash snapshot",
                                    "a custash report",
                                    "a custash snapshot for PyTorch's viewer",
                                    "a custash snapshot for Perfetto",
                                    "a custash picture",
                                    "a custash comparison",
                                    "a file of custash metrics",
                                    "a custash guard report",
                                    "a custash profile"};
  return kNames[static_cast<std::size_t>(kind)];
}

}  // namespace custash::output
