// SPDX-License-Identifier: MIT
#include "tools/command/run/renders.hpp"

#include "interpose/history/ledger.hpp"
#include "interpose/process/output_file.hpp"
#include "tools/command/run/tell.hpp"
#include "tools/command/snapshot/command.hpp"
#include "tools/command/snapshot/forms.hpp"
#include "tools/command/snapshot/named.hpp"

#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>

#include <fcntl.h>
#include <sys/inotify.h>
#include <unistd.h>

namespace custash::run {
namespace {

void render(const std::string& json, pid_t process) {
  snapshot::Json snapshot = snapshot::parse_snapshot(json, snapshot::read_bytes(json));
  (void)snapshot::name_frames(&snapshot, names::Servers::Never);
  std::string to = snapshot::rendered_path(json);
  const std::string text = snapshot::text_of(snapshot, snapshot::form_of(to));
  std::string why;
  if (!output::write_beside_others(&to, text, process, &why))
    throw snapshot::BadSnapshot(shown(to) + ": not written: " + why);
  (void)unlink(json.c_str());
}

}  // namespace

Renders::Renders(const Folder& folder)
    : folder_(folder), watch_(inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {
  if (watch_ < 0) return;
  (void)inotify_add_watch(watch_, folder.path().c_str(), IN_CREATE);
  (void)fcntl(watch_, F_SETOWN, getpid());
  (void)fcntl(watch_, F_SETFL, O_NONBLOCK | O_ASYNC);
}

Renders::~Renders() {
  if (watch_ >= 0) (void)close(watch_);
}

void Renders::make() {
  char news[4096];
  while (watch_ >= 0 && read(watch_, news, sizeof news) > 0) {
  }
  for (const std::string& name : folder_.names()) {
    if (!name.starts_with(ledger::kRender)) continue;
    const std::string link = folder_.path() + "/" + name;
    std::error_code none;
    const std::string json = std::filesystem::read_symlink(link, none);
    (void)unlink(link.c_str());
    try {
      render(json, std::atoi(name.c_str() + std::strlen(ledger::kRender)));
    } catch (const std::exception& error) {
      tell(error.what());
      tell(snapshot::rendering_hint(shown(json)));
    }
  }
}

}  // namespace custash::run
