// SPDX-License-Identifier: MIT
#include "tools/command/describe.hpp"

#include "allocator/base/config.hpp"

#include <cctype>
#include <sstream>
#include <string_view>
#include <vector>

namespace custash {
namespace {

bool has_positional(const CommandText& command, const std::string& name) {
  for (const OptionText& option : command.options)
    if (option.names.empty() && option.name == name) return true;
  return false;
}

// What a shell offers in the place of a value.
struct Offer {
  std::vector<std::string> words;
  bool files = false;
  bool processes = false;
  bool conf = false;  // "key:" of every option of the library
};

// By the name of its type, as the help shows it: "FILE|PID", "sim|cuda", "OUT.svg", "SECONDS".
Offer offer_of(const std::string& type) {
  Offer offer;
  std::istringstream parts(type);
  for (std::string part; std::getline(parts, part, '|');) {
    if (part == "FILE" || part == "FOLDER" || part.starts_with("OUT."))
      offer.files = true;
    else if (part == "PID")
      offer.processes = true;
    else if (part.starts_with("KEY:"))
      offer.conf = true;
    else if (std::islower(static_cast<unsigned char>(part.front())) != 0)
      offer.words.push_back(part);
  }
  return offer;
}

// Of the command's positional, where it has one.
Offer positional_offer(const CommandText& command) {
  for (const OptionText& option : command.options)
    if (option.names.empty()) return offer_of(option.type);
  return {};
}

std::string joined(const std::vector<std::string>& words, const char* between) {
  std::string text;
  for (const std::string& word : words)
    text += (text.empty() ? "" : between) + word;
  return text;
}

std::vector<std::string> command_names(const Description& custash) {
  std::vector<std::string> names;
  for (const CommandText& command : custash.commands)
    names.push_back(command.name);
  return names;
}

std::vector<std::string> all_names(const std::vector<OptionText>& options) {
  std::vector<std::string> all;
  for (const OptionText& option : options)
    all.insert(all.end(), option.names.begin(), option.names.end());
  return all;
}

// ---- Shells. The processes to choose from are read off the kernel's list of sockets.

constexpr const char* kPids =
    R"(sed -n "s:.*@custash/$(id -u)/\([0-9]*\)/.*:\1:p" /proc/net/unix)";

std::vector<std::string> conf_keys() {
  std::vector<std::string> keys;
  for (const OptionRow& row : option_rows())
    keys.push_back(std::string(row.name) + ':');
  return keys;
}

// The words that an option of the library takes; none where they are numbers or paths.
std::vector<std::string> choices_of(const OptionRow& row) {
  if (row.type != "flag" && row.type != "choice") return {};
  return offer_of(std::string(row.range)).words;
}

// The assignment to COMPREPLY.
std::string bash_offer(const Offer& offer) {
  std::string words = joined(offer.words, " ");
  if (offer.processes) words += std::string("$(") + kPids + ")";
  if (offer.conf) return "_custash_conf";
  if (words.empty() && !offer.files) return ":";
  return "COMPREPLY=($(compgen " + std::string(offer.files ? "-f " : "") +
         (words.empty() ? "" : "-W \"" + words + "\" ") + "-- \"$word\"))";
}

// Keys, and behind a colon the values. The shell ends words at colons.
std::string bash_conf() {
  std::string text =
      "_custash_conf() {\n"
      "  local key= before=\n"
      "  case $word,$last in\n"
      "    :,*) key=$last word= ;;\n"
      "    *,:) key=${COMP_WORDS[COMP_CWORD-2]} ;;\n"
      "  esac\n"
      "  case $word in *,*) before=${word%,*}, word=${word##*,} key= ;; esac\n"
      "  case ${key##*,} in\n"
      "    '') compopt -o nospace 2>/dev/null; COMPREPLY=($(compgen -P \"$before\" -W \"" +
      joined(conf_keys(), " ") + "\" -- \"$word\")) ;;\n";
  for (const OptionRow& row : option_rows()) {
    const auto choices = choices_of(row);
    if (!choices.empty())
      text += "    " + std::string(row.name) + ") COMPREPLY=($(compgen -W \"" +
              joined(choices, " ") + "\" -- \"$word\")) ;;\n";
    else if (row.type == "path")
      text += "    " + std::string(row.name) + ") COMPREPLY=($(compgen -f -- \"$word\")) ;;\n";
  }
  return text + "  esac\n}\n";
}

std::string bash_command(const CommandText& command) {
  std::string text = "    " + command.name + ")\n";
  if (has_positional(command, "program")) {
    // Behind the command's own words it is the program's turn.
    text +=
        "      for ((i = 2; i < COMP_CWORD; i++)); do\n"
        "        if [ \"${COMP_WORDS[i]}\" = -- ]; then\n"
        "          if declare -F _command_offset >/dev/null; then _command_offset $((i + 1))\n"
        "          elif [ $((i + 1)) -eq \"$COMP_CWORD\" ]; then COMPREPLY=($(compgen -c -- "
        "\"$word\"))\n"
        "          else COMPREPLY=($(compgen -f -- \"$word\")); fi\n"
        "          return\n"
        "        fi\n"
        "      done\n";
  }
  text += "      case $option in\n";
  for (const OptionText& option : command.options)
    if (option.takes_value && !option.names.empty())
      text += "        " + joined(option.names, " | ") + ") " +
              bash_offer(offer_of(option.type)) + "; return ;;\n";
  std::vector<std::string> words = all_names(command.options);
  if (has_positional(command, "program")) words.emplace_back("--");
  const bool commands = command.name == "help";
  return text + "      esac\n      case $word in\n        -*) COMPREPLY=($(compgen -W \"" +
         joined(words, " ") + "\" -- \"$word\")) ;;\n        *) " +
         (commands ? "COMPREPLY=($(compgen -W \"$commands\" -- \"$word\"))"
                   : bash_offer(positional_offer(command))) +
         " ;;\n      esac ;;\n";
}

std::string bash(const Description& custash) {
  std::string text =
      "# bash completion of custash, written by `custash completion bash`\n" + bash_conf() +
      "_custash() {\n"
      "  local word=${COMP_WORDS[COMP_CWORD]} last=${COMP_WORDS[COMP_CWORD-1]} i\n"
      "  local commands=\"" +
      joined(command_names(custash), " ") +
      "\"\n"
      "  local option=$last  # or that of key:value, which is three words here\n"
      "  case $word,$last in\n"
      "    :,*) option=${COMP_WORDS[COMP_CWORD-2]} ;;\n"
      "    *,:) option=${COMP_WORDS[COMP_CWORD-3]} ;;\n"
      "  esac\n"
      "  COMPREPLY=()\n"
      "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
      "    COMPREPLY=($(compgen -W \"$commands " +
      joined(all_names(custash.options), " ") +
      "\" -- \"$word\"))\n"
      "    return\n"
      "  fi\n"
      "  case ${COMP_WORDS[1]} in\n";
  for (const CommandText& command : custash.commands)
    text += bash_command(command);
  return text + "  esac\n}\ncomplete -o filenames -F _custash custash\n";
}

// For single quotes in both.
std::string plain(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\'' || c == '[' || c == ']' || c == ':') continue;
    out += c;
  }
  return out;
}

// The action of _arguments.
std::string zsh_offer(const Offer& offer) {
  if (offer.conf) return "(" + joined(conf_keys(), " ") + ")";
  if (offer.processes && offer.files) return "_custash_pids_or_files";
  if (offer.processes) return "_custash_pids";
  if (offer.files) return "_files";
  return offer.words.empty() ? " " : "(" + joined(offer.words, " ") + ")";
}

std::string zsh(const Description& custash) {
  std::string text =
      "#compdef custash\n# zsh completion of custash, written by `custash completion zsh`\n"
      "_custash() {\n  local -a commands\n  commands=(\n";
  for (const CommandText& command : custash.commands)
    text += "    '" + command.name + ":" + plain(command.help) + "'\n";
  text +=
      "  )\n  if (( CURRENT == 2 )); then _describe command commands; return; fi\n"
      "  local command=$words[2]\n  shift words; (( CURRENT-- ))\n  case $command in\n";
  for (const CommandText& command : custash.commands) {
    text += "    " + command.name + ") _arguments -S";
    for (const OptionText& option : command.options)
      for (const std::string& name : option.names)
        text += " \\\n      '" + name + "[" + plain(option.help) + "]" +
                (option.takes_value ? ":value:" + zsh_offer(offer_of(option.type)) : "") + "'";
    if (has_positional(command, "program"))
      text += " \\\n      '*:::program:_normal'";
    else
      text += " \\\n      '*:value:" + zsh_offer(positional_offer(command)) + "'";
    text += " ;;\n";
  }
  return text + "  esac\n}\n_custash_pids() { compadd -- $(" + kPids +
         "); }\n_custash_pids_or_files() { _custash_pids; _files; }\n_custash \"$@\"\n";
}

// The options of `complete` for a value: -x stands for no files.
std::string fish_offer(const Offer& offer) {
  std::string words = joined(offer.conf ? conf_keys() : offer.words, " ");
  if (offer.processes) words = std::string("(") + kPids + ")";
  return std::string(offer.files ? " -r -F" : " -x") +
         (words.empty() ? "" : " -a '" + words + "'");
}

std::string fish(const Description& custash) {
  std::string text = "# fish completion of custash, written by `custash completion fish`\n";
  for (const CommandText& command : custash.commands) {
    const std::string name = command.name;
    text += "complete -c custash -n __fish_use_subcommand -f -a " + name + " -d '" +
            plain(command.help) + "'\n";
    const std::string when =
        "complete -c custash -n '__fish_seen_subcommand_from " + name + "'";
    for (const OptionText& option : command.options) {
      if (option.names.empty()) continue;
      text += when;
      for (const std::string& each : option.names)
        text += each.rfind("--", 0) == 0 ? " -l " + each.substr(2) : " -s " + each.substr(1);
      text += std::string(option.takes_value ? fish_offer(offer_of(option.type)) : "") +
              " -d '" + plain(option.help) + "'\n";
    }
    if (has_positional(command, "program"))
      text += when + " -a '(__fish_complete_subcommand --fcs-skip=2)'\n";
    if (const Offer offer = positional_offer(command); offer.processes || !offer.words.empty())
      text += when + fish_offer(offer) + "\n";
  }
  return text;
}

// ---- man.

// Words of a paragraph: what man would take for itself is escaped.
std::string roff(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool starts = out.empty() || out.back() == '\n';
    if (starts && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else
      out += c;
  }
  return out;
}

std::string verbatim(std::string_view text) {
  return text.empty() ? ""
                      : ".PP\n.nf\n" + roff(text) + (text.back() == '\n' ? "" : "\n") + ".fi\n";
}

std::string option_text(const OptionText& option) {
  std::vector<std::string> names = option.names;
  if (names.empty()) names.push_back(option.name);
  std::string text = ".TP\n\\fB" + roff(joined(names, ", ")) + "\\fR";
  if (option.takes_value && !option.names.empty()) text += " " + roff(option.type);
  return text + "\n" + roff(option.help) + "\n";
}

std::string command_text(const CommandText& command) {
  std::string text = ".SS custash " + roff(command.name);
  for (const OptionText& option : command.options)
    if (option.names.empty()) text += " " + roff(option.name);
  text += "\n" + roff(command.help) + ".\n";
  for (const OptionText& option : command.options)
    if (option.name != "--help") text += option_text(option);
  // The options of CUSTASH_CONF have a section of their own.
  std::string footer = command.footer;
  if (const auto options = footer.find("\nOptions for --conf"); options != std::string::npos) {
    const auto rest = footer.find("\nExit status", options);
    footer = footer.substr(0, options) + (rest == std::string::npos ? "" : footer.substr(rest));
  }
  return text + verbatim(footer);
}

}  // namespace

std::string completion(const Description& custash, const std::string& shell) {
  if (shell == "bash") return bash(custash);
  return shell == "zsh" ? zsh(custash) : fish(custash);
}

std::string man_page(const Description& custash) {
  std::string text =
      ".\\\" Written by `custash man`; change the command instead.\n"
      ".TH CUSTASH 1 \"\" \"custash " CUSTASH_VERSION
      "\" \"User Commands\"\n"
      ".SH NAME\ncustash \\- a drop\\-in caching allocator for CUDA\n"
      ".SH SYNOPSIS\n.B custash\n\\fICOMMAND\\fR [\\fIOPTIONS\\fR] \\&...\n"
      ".SH DESCRIPTION\n"
      "custash serves cudaMalloc, cudaFree and their kin of a CUDA program from caches, "
      "without a change to\n"
      "it: a free does not wait for the device, a cached allocation makes no driver call. "
      "\\fBcustash run\\fR\n"
      "starts a program so; the other commands look at programs, at this machine and at "
      "recordings.\n"
      ".SH COMMANDS\n";
  for (const CommandText& command : custash.commands)
    text += command_text(command);
  text +=
      ".SH OPTIONS OF CUSTASH_CONF\nAs key:value,key:value in the environment, or behind "
      "\\fB\\-\\-conf\\fR.\n";
  for (const OptionRow& row : option_rows()) {
    text += ".TP\n\\fB" + roff(row.name) +
            "\\fR:" + roff(row.range.empty() ? row.type : row.range) + " (" +
            roff(row.default_value.empty() ? "empty" : row.default_value) + ")\n" +
            roff(row.help) + "\n";
  }
  return text +
         ".SH FILES\n.TP\n/dev/shm/custash.USER.PID.NUMBER\nwhat \\fBcustash top\\fR shows of "
         "a process "
         "that does not answer; its user's alone\n"
         ".SH ENVIRONMENT\n.TP\n\\fBCUSTASH_CONF\\fR\noptions, as "
         "above\n.TP\n\\fBLD_PRELOAD\\fR\nset by "
         "\\fBcustash run\\fR\n.SH SEE ALSO\nnvidia\\-smi(1), ld.so(8)\n";
}

}  // namespace custash
