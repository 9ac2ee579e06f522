// SPDX-License-Identifier: MIT
// The text form of a trace, line by line.
#include "tools/replay/trace.hpp"

#include "tools/replay/trace_builder.hpp"

#include <array>
#include <charconv>

namespace custash::replay {
namespace {

constexpr std::size_t kFields = 6;
using Fields = std::array<std::string_view, kFields>;

// False when the line has more or fewer fields than a line has.
bool split(std::string_view line, Fields* fields) {
  std::size_t n = 0;
  while (true) {
    const auto start = line.find_first_not_of(" \t\r");
    if (start == std::string_view::npos) return n == kFields;
    if (n == kFields) return false;
    line.remove_prefix(start);
    const auto end = line.find_first_of(" \t\r");
    (*fields)[n++] = line.substr(0, end);
    line = end == std::string_view::npos ? std::string_view() : line.substr(end);
  }
}

template <typename Number>
bool read(std::string_view text, Number* out) {
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, *out);
  return error == std::errc() && stop == end;
}

// Null, or what is wrong.
const char* add_line(TraceBuilder& builder, std::string_view line) {
  Fields fields;
  if (!split(line, &fields)) return "not six fields: t_ns thread op id size stream";
  const auto& [time_text, thread_text, op, id_text, size_text, stream_text] = fields;
  Nanoseconds time = 0;
  std::uint64_t thread = 0;
  std::uint64_t id = 0;
  std::uint64_t stream = 0;
  Bytes bytes = 0;
  if (!read(time_text, &time)) return "t_ns is not a whole number";
  if (!read(thread_text, &thread)) return "thread is not a whole number";
  if (!read(id_text, &id)) return "id is not a whole number";
  if (!read(size_text, &bytes)) return "size is not a whole number";
  const bool named = stream_text != "-";
  if (named && !read(stream_text, &stream)) return "stream is neither - nor a whole number";
  constexpr std::string_view kOps = "afhg";
  const auto at = op.size() == 1 ? kOps.find(op.front()) : std::string_view::npos;
  if (at == std::string_view::npos) return "op is none of a, f, h, g";
  const Kind kind = static_cast<Kind>(at);
  if (is_alloc(kind))
    return named ? builder.alloc_on(time, kind, id, bytes, stream)
                 : builder.alloc(time, kind, id, bytes);
  return named ? builder.free_on(time, kind, id, bytes, stream)
               : builder.free(time, kind, id, bytes);
}

}  // namespace

Trace parse_trace(const std::string& name, std::string_view text) {
  TraceBuilder builder(name);
  // A recording whose process was killed: zeros behind it, and perhaps half a line.
  if (text.ends_with('\0')) {
    text = text.substr(0, text.find_last_not_of('\0') + 1);
    text = text.substr(0, text.rfind('\n') + 1);
  }
  for (std::size_t number = 1; !text.empty(); ++number) {
    const auto end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    const bool damaged = line.find('\0') != std::string_view::npos;
    if (!damaged && (line.empty() || line.front() == '#')) continue;
    if (const char* why = damaged ? "zero bytes: the file is damaged" : add_line(builder, line))
      throw BadTrace(name + ":" + std::to_string(number) + ": " + why);
  }
  return builder.finish();
}

Trace read_trace(const std::string& path) {
  const std::string content = read_file(path);
  if (looks_like_pickle(content)) return parse_snapshot(path, content);
  if (const std::string_view what = known_format(content); !what.empty())
    throw BadTrace(path + ": no trace: it is " + std::string(what));
  const auto first = content.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && (content[first] == '{' || content[first] == '<'))
    throw BadTrace(path + ": no trace: it is a snapshot or a report; custash report " + path +
                   " shows it");
  Trace trace = parse_trace(path, content);
  if (trace.events.empty()) throw BadTrace(path + ": no events in it");
  return trace;
}

}  // namespace custash::replay
