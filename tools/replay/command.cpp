// SPDX-License-Identifier: MIT
#include "tools/replay/command.hpp"

#include "interpose/check/guarded_memory.hpp"
#include "interpose/process/output_text.hpp"
#include "tools/conf.hpp"
#include "tools/output_file.hpp"
#include "tools/progress.hpp"
#include "tools/replay/questions.hpp"
#include "tools/replay/report.hpp"
#include "tools/text.hpp"

#include <algorithm>
#include <cstdio>

namespace custash::replay {

namespace {

constexpr Bytes kDeviceMemory = 143'771_MiB;  // of the GPU that the modelled times are of

constexpr std::size_t kIdleMoments = 8;

struct Misuse : std::runtime_error {
  using std::runtime_error::runtime_error;
};

Subject subject_of(const std::string& name) {
  if (name == "custash") return Subject::Custash;
  if (name == "driver") return Subject::Bare;
  if (name == "pool") return Subject::Pool;
  throw Misuse("--through is custash, driver or pool, not " + name);
}

// A replay with other options than requested would mislead: what a program ignores ends
// it.
Config config_of(const std::string& text) {
  Config config = require_conf("--conf", text);
  GuardedMemory::serve(&config.guard);
  if (const std::string why = log_file::open(config.log, config.log_file); !why.empty())
    throw Misuse("--conf: " + why);
  return config;
}

Output plot_output(const CommandOptions& options) {
  return {options.plot, output::Kind::Picture, options.force};
}

void check(const CommandOptions& options) {
  if (options.backend != "sim" && options.backend != "cuda")
    throw Misuse("--backend is sim or cuda, not " + options.backend);
  (void)subject_of(options.through);
  if (!options.capacity.empty() && options.backend != "sim")
    throw Misuse("--capacity needs --backend sim: a real device has the size it has");
  if (options.idle && (options.backend != "sim" || options.through != "custash"))
    throw Misuse("--idle needs --backend sim and --through custash");
  if (!options.plot.empty() && options.files.size() != 1)
    throw Misuse("--plot takes one trace at a time");
  if (!options.capacity.empty() && options.capacity != kSearch && !size_of(options.capacity))
    throw Misuse("--capacity " + options.capacity +
                 " is not a size up to 16T (write 12884901888, 12G or 1.5GiB)");
  if (options.plot.empty()) return;
  require_svg(options.plot);
  require_output(plot_output(options));
}

std::string picture_of(const Report& report) {
  std::vector<Mark> marks;
  if (report.native) marks.push_back({"PyTorch (model), most held", report.native->peak_held});
  if (report.expandable)
    marks.push_back({"expandable segments (model), most held", report.expandable->peak_held});
  return plot_of(report.trace->name, report.outcome.samples, marks);
}

Report replay_one(const CommandOptions& options,
                  const Config& config,
                  const Trace& trace,
                  Progress& progress) {
  Report report;
  report.trace = &trace;
  report.through = options.through;
  report.modelled_time = options.backend == "sim";
  const bool search = options.capacity == kSearch;
  if (!options.capacity.empty() && !search) report.device = size_of(options.capacity);
  {
    const auto device =
        options.backend == "sim"
            ? make_simulated_device({report.device.value_or(kDeviceMemory), options.in_flight})
            : make_real_device();
    RunOptions run{.keep_samples = !options.plot.empty()};
    run.progress = [&](std::size_t done) {
      progress.show(trace.name, done, trace.events.size());
    };
    report.outcome = replay(trace, *device, subject_of(options.through), config, run);
  }
  if (options.models) {
    report.native = model_pytorch(trace, PyTorchPolicy::Native);
    report.expandable = model_pytorch(trace, PyTorchPolicy::Expandable);
  }
  if (search) {
    const auto smallest = [&](const char* through, Subject subject) {
      return smallest_device(
          trace, config, subject, [&](Bytes memory, std::size_t tries, std::size_t all) {
            const std::string size = std::to_string(memory / 1_MiB) + " MiB";
            progress.show(trace.name + ", " + through + ", " + size, tries, all);
          });
    };
    report.smallest =
        Smallest{smallest("custash", Subject::Custash), smallest("driver", Subject::Bare)};
  }
  if (options.idle)
    report.idle = idle_moments(trace,
                               config,
                               {report.device.value_or(kDeviceMemory), options.in_flight},
                               kIdleMoments);
  if (!options.plot.empty()) write_output(plot_output(options), picture_of(report));
  return report;
}

}  // namespace

int run_command(const CommandOptions& options) {
  check(options);
  const Config config = config_of(options.conf);
  bool good = true;
  std::string json;
  for (const std::string& file : options.files) {
    try {
      Progress progress;
      const Trace trace = read_trace(file);
      const Report report = replay_one(options, config, trace, progress);
      progress.clear();
      good &= report.outcome.fits && report.outcome.sound;
      for (const IdleMoment& each : report.idle)
        good &= each.sound;
      if (options.json)
        json += (json.empty() ? "" : ",\n ") + json_of(report);
      else
        std::fputs(text_of(report).c_str(), stdout);
      std::fflush(stdout);
    } catch (const BadTrace& bad) {
      std::fprintf(stderr, "custash: %s\n", bad.what());
      good = false;
    }
  }
  if (options.json) std::printf("[%s]\n", json.c_str());
  return good ? 0 : 1;
}

}  // namespace custash::replay
