// SPDX-License-Identifier: MIT
#include "tools/command/run/renders.hpp"

#include "interpose/history/ledger.hpp"
#include "interpose/process/output_text.hpp"
#include "tools/command/run/tell.hpp"
#include "tools/command/snapshot/command.hpp"
#include "tools/command/snapshot/forms.hpp"
#include "tools/command/snapshot/named.hpp"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>

#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/wait.h>
#include <unistd.h>

namespace custash::run {
namespace {

void render(const std::string& json, pid_t process) {
  snapshot::Json snapshot = snapshot::parse_snapshot(json, snapshot::read_bytes(json));
  snapshot::tell_of_libdw(snapshot::name_frames(&snapshot, names::Servers::Never));
  std::string to = snapshot::rendered_path(json);
  const std::string text = snapshot::text_of(snapshot, snapshot::form_of(to));
  std::string why;
  if (!output::write_beside_others(&to, text, process, &why))
    throw snapshot::BadSnapshot(shown(to) + ": not written: " + why);
  (void)unlink(json.c_str());
}

void say_it_stays(const std::string& json) {
  tell(snapshot::rendering_hint(shown(json)));
}

void render_or_say_why(const std::string& json, pid_t process) {
  try {
    render(json, process);
  } catch (const std::exception& error) {
    tell(error.what());
    say_it_stays(json);
  }
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

std::vector<Renders::Render> Renders::take_links() {
  std::vector<Render> found;
  for (const std::string& name : folder_.names()) {
    if (!name.starts_with(ledger::kRender)) continue;
    const std::string link = folder_.path() + "/" + name;
    std::error_code none;
    found.push_back({std::filesystem::read_symlink(link, none),
                     std::atoi(name.c_str() + std::strlen(ledger::kRender))});
    (void)unlink(link.c_str());
  }
  return found;
}

void Renders::make() {
  char news[4096];
  while (watch_ >= 0 && read(watch_, news, sizeof news) > 0) {
  }
  end_those([](pid_t child, int* status) { return waitpid(child, status, WNOHANG) != 0; });
  std::vector<Render> renders = take_links();
  if (renders.empty()) return;
  const pid_t child = fork();
  if (child > 0) {
    begun_.push_back({child, std::move(renders)});
    return;
  }
  if (child == 0) {
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
  }
  for (const Render& each : renders)
    render_or_say_why(each.json, each.process);
  if (child == 0) _exit(0);
}

void Renders::finish() {
  end_those([](pid_t child, int* status) {
    while (waitpid(child, status, 0) < 0 && errno == EINTR) {
    }
    return true;
  });
}

void Renders::end_those(const std::function<bool(pid_t, int*)>& has_ended) {
  std::erase_if(begun_, [&](const Begun& each) {
    int status = 0;
    if (!has_ended(each.child, &status)) return false;
    for (const Render& render : each.renders)
      if (!WIFEXITED(status) && access(render.json.c_str(), F_OK) == 0)
        say_it_stays(render.json);
    return true;
  });
}

}  // namespace custash::run
