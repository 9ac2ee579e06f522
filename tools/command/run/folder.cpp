// SPDX-License-Identifier: MIT
#include "tools/command/run/folder.hpp"

#include "interpose/history/ledger.hpp"
#include "interpose/process/live_page.hpp"
#include "interpose/process/output_text.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <stdexcept>

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

namespace custash::run {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPrefix = "custash-run.";
constexpr const char* kInner = "/inner";  // a mark

std::vector<std::string> places() {
  std::vector<std::string> out{"/dev/shm"};
  const char* const own = std::getenv("TMPDIR");
  if (own != nullptr && *own == '/') out.emplace_back(own);
  out.emplace_back("/tmp");
  return out;
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> out;
  DIR* const open = opendir(folder.c_str());
  if (open == nullptr) return out;
  while (const dirent* const entry = readdir(open))
    out.emplace_back(entry->d_name);
  closedir(open);
  return out;
}

// Whether what is in a folder has a name that a run gives: PID-…, render-…, found.…, inner….
bool is_of_run(const std::string& name) {
  return name == "." || name == ".." || (name.front() >= '0' && name.front() <= '9') ||
         name.starts_with(ledger::kRender) || name.starts_with("found.") ||
         ("/" + name).starts_with(kInner);
}

void remove_folder(const std::string& folder) {
  std::error_code ignored;
  (void)fs::remove_all(folder, ignored);  // follows no link
}

bool is_ours(const std::string& folder) {
  struct stat info {};

  return lstat(folder.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == geteuid();
}

// PID.START.NAMESPACE.RANDOM
bool is_stale(const std::string& name) {
  long long process = 0;
  unsigned long long started = 0;
  unsigned long long space = 0;
  if (std::sscanf(
          name.c_str() + std::strlen(kPrefix), "%lld.%llu.%llu.", &process, &started, &space) !=
          3 ||
      space != live::pid_namespace() || process <= 0)
    return false;  // not ours to judge
  const auto pid = static_cast<pid_t>(process);
  return live::start_of(pid) != started;
}

// The folder of the launcher that has started this one; empty if there is none.
std::string outer_folder() {
  const char* const text = std::getenv(kLauncher);
  char folder[200] = "";
  if (text == nullptr || std::sscanf(text, "%*s %*d %*u %199[^\n]", folder) != 1) return "";
  return is_ours(folder) ? folder : "";
}

bool take_number(const char** at, const char* end, int* out) {
  const auto read = std::from_chars(*at, end, *out);
  *at = read.ptr;
  return read.ec == std::errc() && *out >= 0;
}

}  // namespace

Folder::Folder() {
  remove_stale_folders();
  const std::string name = kPrefix + std::to_string(getpid()) + "." +
                           std::to_string(live::start_of(getpid())) + "." +
                           std::to_string(live::pid_namespace()) + ".XXXXXX";
  for (const std::string& place : places()) {
    std::string path = place + "/" + name;
    if (mkdtemp(path.data()) == nullptr) continue;  // of mode 0700
    path_ = path;
    std::string why;
    std::string mark = outer_folder() + kInner;
    if (mark != kInner) (void)output::write_beside_others(&mark, "", getpid(), &why);
    return;
  }
  throw std::runtime_error("no folder for the report's data can be made in /dev/shm or /tmp: " +
                           std::string(std::strerror(errno)));
}

Folder::~Folder() {
  remove_folder(path_);
}

bool Folder::has_inner() const {
  return access((path_ + kInner).c_str(), F_OK) == 0;
}

std::vector<std::string> Folder::names() const {
  return names_in(path_);
}

std::vector<LedgerName> Folder::ledgers() const {
  std::vector<LedgerName> out;
  for (const std::string& name : names()) {
    LedgerName each{path_ + "/" + name, 0, 0, ""};
    const char* at = name.data();
    const char* const end = at + name.size();
    if (!take_number(&at, end, &each.process) || at == end || *at++ != '-' ||
        !take_number(&at, end, &each.program))
      continue;
    each.ending.assign(at, end);
    out.push_back(each);
  }
  return out;
}

void remove_stale_folders() {
  for (const std::string& place : places()) {
    for (const std::string& name : names_in(place)) {
      const std::string path = place + "/" + name;
      if (name.rfind(kPrefix, 0) != 0 || !is_ours(path) || !is_stale(name)) continue;
      // Another user may have given the name to a folder of this one.
      const std::vector<std::string> names = names_in(path);
      if (std::all_of(names.begin(), names.end(), is_of_run)) remove_folder(path);
    }
  }
}

}  // namespace custash::run
