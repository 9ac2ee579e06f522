// SPDX-License-Identifier: MIT
// Writes the table of options for people. No state.
#include "allocator/base/config.hpp"
#include "tools/conf.hpp"

namespace custash {
namespace {

constexpr std::string_view kIntroduction =
    "# Options\n"
    "\n"
    "<!-- Written by `custash options`; change the table in allocator/base/config.cpp instead. "
    "-->\n"
    "\n"
    "Set options with `CUSTASH_CONF=\"key:value,key:value\"` in the environment, or with\n"
    "`custash run --conf \"key:value,key:value\"`. For a key given twice the last value\n"
    "wins, and `--conf` comes after the environment. custash reads the options once,\n"
    "when the program first uses CUDA. It ignores a key or value that is not in this\n"
    "table, with one line on standard error, and the program runs. A mistake in\n"
    "`--conf` is an error: `custash run` then does not start the program. A removed\n"
    "option is ignored for one version, with one line that names what replaces it. Flags also\n"
    "accept on/off, yes/no and 1/0. Case and spaces around a key or a value do not\n"
    "matter.\n"
    "\n"
    "Sizes are powers of 1,024: `K`, `KB` and `KiB` are the same, and `1.5G` is 1536 MiB. "
    "Percent and\n"
    "seconds may carry their unit (`10%`, `10s`). `neighbors` is accepted for `neighbours`.\n";

// A bar inside a cell would end it.
std::string cell(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '|') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

std::string quoted(std::string_view text) {
  return text.empty() ? "(empty)" : "`" + cell(text) + "`";
}

std::string values(const OptionRow& row) {
  if (row.type == "path") return "a path";
  return quoted(row.range) +
         (row.type == "percent" || row.type == "seconds" ? " " + std::string(row.type) : "");
}

// Indented by six and broken between words, as --help is read in a terminal.
std::string wrapped(std::string_view words) {
  constexpr std::string_view kIndent = "      ";
  constexpr std::size_t kWidth = 92 - kIndent.size();
  std::string text;
  while (!words.empty()) {
    std::size_t end = words.size() <= kWidth ? words.size() : words.rfind(' ', kWidth);
    if (end == std::string_view::npos) end = words.size();  // one long word
    text.append(kIndent).append(words.substr(0, end)).append("\n");
    words = words.substr(end == words.size() ? end : end + 1);
  }
  return text;
}

}  // namespace

std::string options_page() {
  std::string page(kIntroduction);
  for (const bool advanced : {false, true}) {
    page +=
        advanced
            ? "\n## Advanced\n\nFew programs need these; the last column says which.\n\n| option | default | values | what it does | for |\n"
            : "\n| option | default | values | what it does |\n";
    page += advanced ? "| --- | --- | --- | --- | --- |\n" : "| --- | --- | --- | --- |\n";
    for (const OptionRow& row : option_rows()) {
      if (row.advanced.empty() == advanced) continue;
      page += "| `" + std::string(row.name) + "` | " + quoted(row.default_value) + " | " +
              values(row) + " | " + cell(row.help) + " |";
      page += advanced ? " " + cell(row.advanced) + " |\n" : "\n";
    }
  }
  return page;
}

std::string options_help(bool advanced) {
  std::string text;
  for (const OptionRow& row : option_rows()) {
    if (row.advanced.empty() == advanced) continue;
    std::string line = "  " + std::string(row.name) + ":";
    line += row.type == "path" ? "PATH" : std::string(row.range);
    constexpr std::size_t kColumn = 34;
    line.resize(line.size() < kColumn ? kColumn : line.size() + 1, ' ');
    text += line + "default ";
    text += row.default_value.empty() ? "(empty)" : row.default_value;
    text += "\n" + wrapped(row.help);
  }
  return text;
}

}  // namespace custash
