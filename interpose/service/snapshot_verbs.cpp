// SPDX-License-Identifier: MIT
#include "interpose/observe/report_library.hpp"
#include "interpose/service/verbs.hpp"

#include <charconv>

namespace custash::snapshot {
namespace {

// A number at the front of `text`, and the blank behind it.
template <typename Number>
bool take_number(std::string_view* text, Number* out) {
  const auto read = std::from_chars(text->data(), text->data() + text->size(), *out);
  if (read.ec != std::errc()) return false;
  text->remove_prefix(static_cast<std::size_t>(read.ptr - text->data()));
  if (!text->empty() && text->front() == ' ') text->remove_prefix(1);
  return true;
}

void refuse(service::Answer* answer, const char* why) {
  answer->status = service::ReplyStatus::BadArguments;
  answer->text = why;
}

// Null, and the answer is the reason, where there is no such library.
const ReportLibrary* reports_for(service::Answer* answer) {
  const ReportLibrary* const reports = open_report_library(&answer->text);
  if (reports == nullptr) answer->status = service::ReplyStatus::Refused;
  return reports;
}

}  // namespace

void answer(Allocator& core,
            service::Session&,
            std::string_view arguments,
            service::Answer* answer) {
  if (arguments != "json")
    return refuse(answer, "unknown form: the command makes all but json");
  if (const ReportLibrary* const reports = reports_for(answer))
    answer->text = reports->snapshot_json(core, history::Events::With);
}

void answer_history(Allocator&,
                    service::Session&,
                    std::string_view arguments,
                    service::Answer* answer) {
  std::size_t events = 0;
  unsigned depth = 0;
  if (arguments == "off") {
    if (const ReportLibrary* const reports = report_library()) reports->stop_history();
    return;
  }
  if (!take_number(&arguments, &events) || !take_number(&arguments, &depth) ||
      !arguments.empty())
    return refuse(answer, "two numbers are needed, of events and of callers");
  const ReportLibrary* const reports = reports_for(answer);
  if (reports != nullptr && !reports->start_history(events, depth))
    answer->status = service::ReplyStatus::Refused;
}

void answer_leaks(Allocator& core,
                  service::Session&,
                  std::string_view,
                  service::Answer* answer) {
  if (const ReportLibrary* const reports = reports_for(answer))
    answer->text = reports->snapshot_json(core, history::Events::Without);
}

}  // namespace custash::snapshot
