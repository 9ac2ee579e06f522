// SPDX-License-Identifier: MIT
#include "tools/command/snapshot/read.hpp"

#include "tools/command/snapshot/packed.hpp"
#include "tools/command/snapshot/report_page.hpp"
#include "tools/replay/trace.hpp"

#include <algorithm>
#include <cctype>

namespace custash::snapshot {
namespace {

bool is_page(std::string_view bytes) {
  const auto first = bytes.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && bytes[first] == '<';
}

// What stands between `begin` and the end of the element; empty where there is none.
std::string_view element(std::string_view page, std::string_view begin) {
  const auto found = page.find(begin);
  const auto end = found == std::string_view::npos ? found : page.find(kDataEnd, found);
  if (end == std::string_view::npos) return {};
  const auto from = found + begin.size();
  return page.substr(from, end - from);
}

// A byte after the other, and says at every hundredth how far it is.
class Watched {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  Watched(std::string_view text, std::size_t at, const Told* told)
      : text_(text), at_(at), told_(told) {}

  reference operator*() const { return text_[at_]; }

  Watched& operator++() {
    if (++at_ % step() == 0 && *told_) (*told_)(at_, text_.size());
    return *this;
  }

  bool operator==(const Watched& other) const { return at_ == other.at_; }

  bool operator!=(const Watched& other) const { return at_ != other.at_; }

 private:
  [[nodiscard]] std::size_t step() const { return text_.size() / 100 + 1; }

  std::string_view text_;
  std::size_t at_;
  const Told* told_;
};

// Traces begin with a time, or a comment of the recorder.
std::string trace_hint(const std::string& name, std::string_view bytes) {
  const bool trace =
      !bytes.empty() && (bytes.starts_with("# custash trace") ||
                         std::isdigit(static_cast<unsigned char>(bytes.front())));
  return trace ? " (of a trace: custash replay " + name + ")" : "";
}

// The snapshot that a report shows.
Json from_page(const std::string& name, std::string_view page, const Told& progress) {
  if (page.find(kPackedBefore) != std::string_view::npos)
    throw BadSnapshot(name + ": a report of two files; name one of those");
  const std::string_view packed = element(page, kPackedBegin);
  if (!packed.empty())
    return unpacked(
        name, packed.substr(std::min(packed.find('>'), packed.size() - 1) + 1), progress);
  const std::string_view plain = element(page, kPlainDataBegin);
  if (plain.empty()) throw BadSnapshot(name + ": a page, but no report of custash");
  return parse_json(name, plain, progress);
}

}  // namespace

Json parse_json(const std::string& name, std::string_view text, const Told& progress) {
  constexpr int kDeepest = 16;  // what is written again is written by recursion
  constexpr std::size_t kMostLists = std::size_t{1} << 23;
  constexpr std::size_t kMostValues = std::size_t{1} << 26;
  std::size_t lists = 0;
  std::size_t values = 0;
  const Watched begin(text, 0, &progress);
  const Watched end(text, text.size(), &progress);
  return Json::parse(begin, end, [&](int depth, Json::parse_event_t what, Json&) {
    using Event = Json::parse_event_t;
    if (depth > kDeepest) throw BadSnapshot(name + ": no snapshot: too deep");
    lists += what == Event::array_start || what == Event::object_start ? 1 : 0;
    values += what == Event::value ? 1 : 0;
    if (lists > kMostLists || values > kMostValues)
      throw BadSnapshot(name + ": no snapshot: more values than one can sensibly hold");
    return true;
  });
}

Json parse_snapshot(const std::string& name, std::string_view bytes, const Told& progress) {
  if (is_guard_report(bytes))
    throw BadSnapshot(name + ": no snapshot: it is a guard report (custash report " + name +
                      ")");
  Json snapshot;
  const bool pickle = replay::looks_like_pickle(bytes);
  if (const auto what = replay::known_format(bytes); !pickle && !what.empty())
    throw BadSnapshot(name + ": no snapshot: it is " + std::string(what));
  try {
    snapshot = pickle           ? from_torch(name, bytes, progress)
               : is_page(bytes) ? from_page(name, bytes, progress)
                                : parse_json(name, bytes, progress);
  } catch (const replay::BadTrace& error) {
    throw BadSnapshot(error.what());
  } catch (const Json::parse_error& error) {
    throw BadSnapshot(name + ": no snapshot: no JSON at byte " + std::to_string(error.byte) +
                      trace_hint(name, bytes));
  } catch (const Json::exception&) {
    throw BadSnapshot(name + ": no snapshot: its JSON holds other things");
  }
  check_snapshot(name, snapshot);
  return snapshot;
}

std::string read_bytes(const std::string& path) {
  try {
    return replay::read_file(path == "-" ? "/dev/stdin" : path);
  } catch (const replay::BadTrace& error) {
    throw BadSnapshot(error.what());
  }
}

}  // namespace custash::snapshot
