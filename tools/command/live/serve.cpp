// SPDX-License-Identifier: MIT
#include "interpose/process/file_name.hpp"
#include "interpose/process/output_file.hpp"
#include "interpose/process/output_text.hpp"
#include "tools/command/live/look.hpp"
#include "tools/command/live/server.hpp"
#include "tools/command/live/signals.hpp"
#include "tools/command/live/subcommands.hpp"
#include "tools/output_file.hpp"

#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <stdexcept>

#include <poll.h>
#include <unistd.h>

namespace custash::live {
namespace {

using Clock = Server::Clock;

// A process that does not answer must not keep a scrape waiting.
constexpr std::chrono::milliseconds kScrapePatience{100};
// Answers this young serve again: no client can keep the programs busy.
constexpr std::chrono::milliseconds kFresh{200};

class Metrics {
 public:
  const std::string& text() {
    if (text_.empty() || Clock::now() - made_ > kFresh) {
      text_ = metrics_of(looker_.poll(kScrapePatience), host_);
      made_ = Clock::now();
    }
    return text_;
  }

 private:
  const std::string host_ = file_name::own_host();
  Looker looker_;
  std::string text_;
  Clock::time_point made_;
};

// node_exporter runs as another user, so the file can be read by all. It is replaced whole.
void write_textfile(const ServeOptions& options, const std::string& metrics) {
  const std::string path = output::resolved(options.textfile);
  const output::Replace replace = options.force ? output::Replace::Any : output::Replace::Own;
  std::string why = output::objection(path, output::Kind::Metrics, replace, recognised);
  if (!why.empty() && why.starts_with("exists")) why += "; --force replaces it";
  if (!why.empty()) throw CannotWrite(options.textfile + ": " + why);
  const std::string text = std::string(output::kMetricsMark) + metrics;
  const std::string beside = output::write_beside(path, text, &why, output::Readers::All);
  if (beside.empty()) throw CannotWrite(options.textfile + ": " + why);
  if (output::move(beside, path, output::Kind::Metrics, replace, &why, recognised)) return;
  (void)unlink(beside.c_str());
  throw CannotWrite(options.textfile + ": " + why);
}

// Unless something else has its name by now.
void remove_textfile(const std::string& path) {
  if (output::objection(path, output::Kind::Metrics, output::Replace::Own, recognised).empty())
    (void)unlink(path.c_str());
}

// False: the end is asked for.
bool heed(const Signals& signals) {
  for (int signal = signals.take(); signal != 0; signal = signals.take()) {
    if (ends(signal)) return false;
    if (signal == SIGTSTP) Signals::stop_here();
  }
  return true;
}

void wait(Clock::time_point until, int fd) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
  pollfd item{fd, POLLIN, 0};
  poll(&item, 1, static_cast<int>(std::max<long>(left.count(), 0)));
}

void serve(const ServeOptions& options,
           Metrics& metrics,
           Server* server,
           const Signals& signals) {
  const bool writes = !options.textfile.empty();
  const auto pause = std::chrono::milliseconds(
      writes ? static_cast<long>(std::lround(options.interval * 1000)) : 3'600'000);
  do {
    if (writes) write_textfile(options, metrics.text());
    const auto until = Clock::now() + pause;
    while (Clock::now() < until) {
      server != nullptr ? server->serve(until, signals.fd()) : wait(until, signals.fd());
      if (!heed(signals)) return;
    }
  } while (true);
}

}  // namespace

int run_serve(const ServeOptions& options) {
  const bool writes = !options.textfile.empty();
  if (writes && !options.textfile.ends_with(".prom"))
    throw std::runtime_error(options.textfile +
                             ": node_exporter reads files whose names end in .prom");
  if (options.once && !writes) throw std::runtime_error("--once needs --textfile");
  Metrics metrics;
  if (options.once) {
    write_textfile(options, metrics.text());
    return 0;
  }
  const Signals signals;  // before it reports that it runs
  std::unique_ptr<Server> server;
  if (!writes || options.port >= 0) {
    server = std::make_unique<Server>(options.port >= 0 ? options.port : kUsualPort,
                                      [&] { return metrics.text(); });
    std::printf("custash: http://127.0.0.1:%d/metrics\n", server->port());
    (void)std::fflush(stdout);
  }
  serve(options, metrics, server.get(), signals);
  // Old numbers would be taken for new ones.
  if (writes) remove_textfile(output::resolved(options.textfile));
  return 0;
}

}  // namespace custash::live
