// SPDX-License-Identifier: MIT
// Only in libcuda.so.1: the world as CUSTASH_SIM describes it (defaults: two devices of 8 GiB,
// timed, with real bytes), the handler that cuInit hangs on exit, and the report that it
// writes.
//   CUSTASH_SIM="devices=2,memory=8g,seed=1,mode=timed,report=stderr,vmm=1,register=1,detector=0"
// teardown_us: how long the end of a context takes, other threads going on.
// machine=FILE: processes that name the same file share the devices: their memory, and handles
// of it. Of NVIDIA's variables it knows CUDA_VISIBLE_DEVICES (numbers) and
// CUDA_LAUNCH_BLOCKING.
#include "tests/sim/process.hpp"

#include "tests/sim/world.hpp"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>

// As cudadebugger.h names it: a debugger sets it.
extern "C" {
__attribute__((visibility("default"))) std::uint32_t cudbgIpcFlag = 0;
}

namespace custash::sim {
namespace {

// Allocated and never freed: read after the static destructors have run.
std::string* report_to = nullptr;
bool detect = false;

Bytes size_of(const std::string& text) {
  char* unit = nullptr;
  const Bytes n = std::strtoull(text.c_str(), &unit, 0);
  switch (*unit) {
    case 'k':
      return n * 1_KiB;
    case 'm':
      return n * 1_MiB;
    case 'g':
      return n * 1_GiB;
    case 't':
      return n * 1_GiB * 1024;
    default:
      return n;
  }
}

bool set_mode(Options& options, const std::string& value) {
  if (value == "told")
    options.advance = Advance::Told;
  else if (value == "seeded")
    options.advance = Advance::Seeded;
  else if (value == "timed")
    options.advance = Advance::Timed;
  else
    return false;
  return true;
}

bool set_option(Options& options, const std::string& key, const std::string& value) {
  const bool on = value != "0";
  if (key == "devices")
    options.devices = std::atoi(value.c_str());
  else if (key == "memory")
    options.device_memory = size_of(value);
  else if (key == "context")
    options.context_memory = size_of(value);
  else if (key == "module")
    options.module_memory = size_of(value);
  else if (key == "room")
    options.room_for_objects = size_of(value);
  else if (key == "pitch")
    options.pitch_unit = size_of(value);
  else if (key == "whole_last_row")
    options.whole_last_row = on;
  else if (key == "granularity")
    options.vmm_granularity = size_of(value);
  else if (key == "seed")
    options.seed = std::strtoull(value.c_str(), nullptr, 0);
  else if (key == "mode")
    return set_mode(options, value);
  else if (key == "machine")
    options.machine = value;
  else if (key == "report")
    *report_to = value;
  else if (key == "detector")
    detect = on;
  else if (key == "vmm")
    options.vmm = on;
  else if (key == "data")
    options.data = on;
  else if (key == "peers")
    options.peers = on;
  else if (key == "register")
    options.registration = on;
  else if (key == "pageable")
    options.pageable = on;
  else if (key == "hmm")
    options.hmm = on;
  else if (key == "decompress")
    options.decompress = on;
  else if (key == "teardown_us")
    options.teardown = std::chrono::microseconds(std::atoi(value.c_str()));
  else if (key == "portable_told")
    options.portable_told = on;
  else if (key == "debugger")
    cudbgIpcFlag = on;
  else if (key == "kernel_ns")
    options.default_kernel = std::strtoull(value.c_str(), nullptr, 0);
  else
    return false;
  return true;
}

void read_settings(Options& options, const char* settings) {
  std::stringstream each(settings);
  for (std::string item; std::getline(each, item, ',');) {
    const std::size_t equals = item.find('=');
    if (equals == std::string::npos ||
        !set_option(options, item.substr(0, equals), item.substr(equals + 1)))
      std::fprintf(
          stderr, "simulated driver: CUSTASH_SIM: \"%s\" is not understood\n", item.c_str());
  }
}

// As the driver reads it: devices up to the first number that names none, in that order.
void read_visible_devices(Options& options, const char* list) {
  std::stringstream each(list);
  options.visible_devices.clear();
  for (std::string item; std::getline(each, item, ',');) {
    char* end = nullptr;
    const long device = std::strtol(item.c_str(), &end, 10);
    if (end == item.c_str() || device < 0 || device >= options.devices) break;
    options.visible_devices.push_back(static_cast<int>(device));
  }
  options.devices = static_cast<int>(options.visible_devices.size());
}

void write_report() {
  if (report_to->empty()) return;
  const std::string text = report();
  std::FILE* file = *report_to == "stderr" ? stderr : std::fopen(report_to->c_str(), "w");
  if (file == nullptr) return;
  std::fputs(text.c_str(), file);
  if (file != stderr) std::fclose(file);
}

void at_exit() {
  write_report();
  set_deinitialised();
}

__attribute__((constructor)) void set_up() {
  report_to = new std::string;
  Options options;
  options.advance = Advance::Timed;
  options.data = true;
  options.log = false;
  options.initialised = false;
  options.host_function_thread = true;
  if (const char* settings = std::getenv("CUSTASH_SIM")) read_settings(options, settings);
  if (const char* list = std::getenv("CUDA_VISIBLE_DEVICES"))
    read_visible_devices(options, list);
  const char* blocking = std::getenv("CUDA_LAUNCH_BLOCKING");
  options.blocking_launches = blocking != nullptr && std::atoi(blocking) != 0;
  set_default_options(options);
  if (detect) start_detector();
  after_init = [] { std::atexit(at_exit); };
}

}  // namespace
}  // namespace custash::sim
