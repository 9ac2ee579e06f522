// SPDX-License-Identifier: MIT
#include "tools/command/live/view.hpp"

#include "interpose/process/printable.hpp"
#include "tools/command/live/bars.hpp"
#include "tools/command/live/look.hpp"
#include "tools/text.hpp"

#include <algorithm>
#include <utility>

namespace custash::live {
namespace {

using Lines = std::vector<std::string>;
using Chosen = std::vector<const Column*>;

constexpr const char* kNobody[] = {
    "No program of this user runs under custash.",
    "Start one:  custash run -- PROGRAM",
    "A program shows up here with its first device memory.",
    "Programs of other users and in other containers do not show up:",
    "run this command as that user, or in that container.",
};

constexpr const char* kKeys = "q quit  s sort  r reverse  t trim  w write report  h help";

constexpr const char* kKeyHelp[] = {
    "up, down, j, k   choose a line",
    "s, S             sort by the next column, by the one before",
    "r                reverse the order",
    "t                ask, then return the process's free memory (custash trim PID)",
    "w                ask, then write a report of it here (custash snapshot PID)",
    "space            look again now",
    "h, ?             this help, and back",
    "q                quit",
};

class View {
 public:
  View(const Look& before, const Look& now, const ViewOptions& how)
      : now_(now),
        how_(how),
        sort_(how.sort != nullptr ? *how.sort : *column_of(kDefaultSort)),
        rows_(rows_of(before, now)) {
    sort_rows(rows_, sort_, how.reversed);
  }

  [[nodiscard]] Lines lines() {
    add_title();
    add_devices();
    lines_.emplace_back();
    const std::size_t foot = how_.keys ? 2 : 0;
    const std::size_t room = how_.height == 0 ? 0 : how_.height - std::min(how_.height, foot);
    if (how_.help)
      add_plain(kKeyHelp);
    else if (now_.seen.empty())
      add_plain(kNobody);
    else
      add_table(room - std::min(room, lines_.size()));
    if (how_.height != 0) lines_.resize(std::min(lines_.size(), room));
    if (how_.keys) add_foot(room);
    return lines_;
  }

  [[nodiscard]] const std::vector<Row>& rows() const { return rows_; }

 private:
  [[nodiscard]] PaintedLine new_line() const { return {how_.width, how_.colour}; }

  void add_title() {
    std::int64_t pinned = 0;
    for (const Seen& each : now_.seen)
      pinned += each.page.pinned_bytes;
    std::string text;
    add(text,
        "  processes %zu, devices %zu, pinned host memory %s",
        now_.seen.size(),
        uses_of(now_).size(),
        human(static_cast<Bytes>(std::max<std::int64_t>(pinned, 0))).c_str());
    PaintedLine line = new_line();
    line.add(Style::Strong, "custash top");
    line.add(Style::Plain, text);
    lines_.push_back(line.text());
  }

  void add_devices() {
    const std::vector<DeviceUse> uses = uses_of(now_);
    const std::size_t most =
        how_.height == 0 ? uses.size() : std::max<std::size_t>(how_.height / 2, 3) - 2;
    const std::size_t shown = uses.size() > most ? most - 1 : uses.size();
    const std::vector<DeviceUse> first(uses.begin(),
                                       uses.begin() + static_cast<std::ptrdiff_t>(shown));
    for (std::string& line : bars_of(first, how_.width, glyphs_of(how_.unicode), how_.colour))
      lines_.push_back(std::move(line));
    if (shown < uses.size())
      add_faint("    ... " + std::to_string(uses.size() - shown) + " more devices");
  }

  void add_faint(const std::string& text) {
    PaintedLine line = new_line();
    line.add(Style::Faint, text);
    lines_.push_back(line.text());
  }

  template <std::size_t kCount>
  void add_plain(const char* const (&texts)[kCount]) {
    for (const char* const text : texts) {
      PaintedLine line = new_line();
      line.add(Style::Plain, std::string("  ") + text);
      lines_.push_back(line.text());
    }
  }

  // Without the least important ones, as long as a name has no room.
  [[nodiscard]] Chosen shown_columns() const {
    std::size_t name = 10;
    for (const Row& row : rows_)
      name = std::clamp<std::size_t>(columns_of(title_of(row)), name, 24);
    const bool ranked = std::any_of(rows_.begin(), rows_.end(), [](const Row& row) {
      return row.program != nullptr && row.program->rank;
    });
    const bool by_driver = std::any_of(rows_.begin(), rows_.end(), [](const Row& row) {
      return row.part->by_driver_bytes != 0;
    });
    Chosen chosen;
    std::size_t width = name + 1;
    for (const Column& each : columns()) {
      if (std::string_view(each.word) == "rank" && !ranked) continue;
      if (std::string_view(each.word) == kByDriver && !by_driver) continue;
      chosen.push_back(&each);
      width += static_cast<std::size_t>(each.width) + 1;
    }
    while (how_.width != 0 && width > how_.width && chosen.size() > 2) {
      const auto least =
          std::min_element(chosen.begin(), chosen.end(), [](const Column* a, const Column* b) {
            return a->importance < b->importance;
          });
      width -= static_cast<std::size_t>((*least)->width) + 1;
      chosen.erase(least);
    }
    return chosen;
  }

  // The column that the rows are sorted by stands out also without colour.
  [[nodiscard]] std::string head_of(const Column& column) const {
    const bool sorts = &column == &sort_ || column.word == std::string_view(sort_.word);
    if (!sorts) return column.title;
    const bool rises = column.rising != how_.reversed;
    const char* const mark = how_.unicode ? (rises ? "\u25b2" : "\u25bc") : (rises ? "^" : "v");
    return mark + std::string(column.title);
  }

  void add_head(const Chosen& chosen) {
    std::string text;
    for (const Column* each : chosen)
      add_cell(text, *each, head_of(*each));
    PaintedLine line = new_line();
    line.add(Style::Plain, text);
    if (how_.colour) line.fill(Style::Head);
    lines_.push_back(line.text());
  }

  static void add_cell(std::string& out, const Column& column, const std::string& text) {
    if (column.width == 0) {
      out += (out.empty() ? "" : "  ") + text;
      return;
    }
    if (!out.empty()) out += ' ';
    const auto width = static_cast<std::size_t>(column.width);
    out.append(width - std::min(width, columns_of(text)), ' ');
    out += text;
  }

  void add_row(const Row& row, const Chosen& chosen) {
    std::string text;
    for (const Column* each : chosen)
      add_cell(text, *each, each->text(row));
    PaintedLine line = new_line();
    const bool is_chosen = how_.chosen && *how_.chosen == name(row);
    if (is_chosen && !how_.colour && !text.empty()) text[0] = '>';
    line.add(Style::Plain, text);
    if (!row.process->answered) {
      std::string told;
      add(told, "  (does not answer; %.0f s ago)", age_of(now_, row.process->page));
      line.add(Style::Warning, told);
    }
    if (is_chosen && how_.colour) line.fill(Style::Chosen);
    lines_.push_back(line.text());
  }

  // `room`: for the head and the rows; 0: no limit. The chosen row is always shown.
  void add_table(std::size_t room) {
    const Chosen chosen = shown_columns();
    add_head(chosen);
    std::size_t count = rows_.size();
    std::size_t first = 0;
    if (how_.height != 0 && rows_.size() + 1 > room) {
      count = room - std::min<std::size_t>(room, 2);
      const std::size_t at = place_of_chosen();
      if (at >= count && at < rows_.size()) first = at + 1 - count;
    }
    for (std::size_t i = first; i < std::min(first + count, rows_.size()); ++i)
      add_row(rows_[i], chosen);
    if (count == rows_.size()) return;
    const std::size_t below = rows_.size() - first - count;
    const std::string above = first == 0 ? "" : std::to_string(first) + " lines above";
    add_faint("    ... " + above +
              (below == 0   ? ""
               : first == 0 ? std::to_string(below) + " more lines"
                            : ", " + std::to_string(below) + " below"));
  }

  [[nodiscard]] std::size_t place_of_chosen() const {
    const auto found = std::find_if(rows_.begin(), rows_.end(), [&](const Row& row) {
      return how_.chosen && *how_.chosen == name(row);
    });
    return static_cast<std::size_t>(found - rows_.begin());
  }

  void add_foot(std::size_t at) {
    lines_.resize(std::max(at, lines_.size()));
    PaintedLine message = new_line();
    message.add(how_.question ? Style::Warning : Style::Plain, printable(how_.message));
    lines_.push_back(message.text());
    PaintedLine keys = new_line();
    constexpr std::size_t kAllKeys = 58;
    keys.add(Style::Faint,
             how_.question                              ? "y yes  any other key no"
             : how_.width != 0 && how_.width < kAllKeys ? "q quit  h help"
                                                        : kKeys);
    lines_.push_back(keys.text());
  }

 public:
  static RowName name(const Row& row) { return {row.process->page.pid, row.device}; }

 private:
  const Look& now_;
  const ViewOptions& how_;
  const Column& sort_;
  std::vector<Row> rows_;
  Lines lines_;
};

}  // namespace

Lines view_of(const Look& before, const Look& now, const ViewOptions& how) {
  return View(before, now, how).lines();
}

std::vector<RowName> names_of(const Look& before, const Look& now, const ViewOptions& how) {
  const View view(before, now, how);
  std::vector<RowName> names;
  for (const Row& row : view.rows())
    names.push_back(View::name(row));
  return names;
}

}  // namespace custash::live
