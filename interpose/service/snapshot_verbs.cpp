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

}  // namespace

bool prepare(std::string* why) {
  return open_report_library(why) != nullptr;
}

void answer(Allocator& core,
            service::Session&,
            std::string_view arguments,
            service::Answer* answer) {
  if (arguments != "json")
    return refuse(answer, "unknown form: the command makes all but json");
  answer->text_later = report_library()->snapshot_json(core, history::Events::With);
}

void answer_history(Allocator&,
                    service::Session&,
                    std::string_view arguments,
                    service::Answer* answer) {
  std::size_t events = 0;
  unsigned depth = 0;
  if (arguments == "off") return report_library()->stop_history();
  if (!take_number(&arguments, &events) || !take_number(&arguments, &depth) ||
      !arguments.empty())
    return refuse(answer, "two numbers are needed, of events and of callers");
  if (!report_library()->start_history(events, depth))
    answer->status = service::ReplyStatus::Refused;
}

void answer_leaks(Allocator& core,
                  service::Session&,
                  std::string_view,
                  service::Answer* answer) {
  answer->text_later = report_library()->snapshot_json(core, history::Events::Without);
}

}  // namespace custash::snapshot
