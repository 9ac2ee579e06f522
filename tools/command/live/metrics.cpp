// SPDX-License-Identifier: MIT

#include "interpose/counters/passed_counts.hpp"
#include "interpose/process/printable.hpp"
#include "tools/command/live/devices.hpp"
#include "tools/command/live/look.hpp"
#include "tools/text.hpp"

#include <array>

namespace custash::live {
namespace {

void add_head(std::string& out, const std::string& name, const char* type, const char* help) {
  out += "# HELP " + name + " " + help + "\n# TYPE " + name + " " + type + "\n";
}

void add_sample(std::string& out,
                const std::string& name,
                const std::string& labels,
                const std::string& value) {
  out += name + "{" + labels + "} " + value + "\n";
}

struct Measure {
  const char* name;
  bool counts;  // it only ever rises
  const char* help;
  std::int64_t DevicePart::*value;
};

constexpr std::array kMeasures = {
    Measure{"allocated_bytes",
            false,
            "Device memory that the program owns.",
            &DevicePart::allocated_bytes},
    Measure{"allocated_bytes_peak",
            false,
            "The most device memory that the program owned.",
            &DevicePart::allocated_peak},
    Measure{"reserved_bytes",
            false,
            "Device memory that custash holds from the driver.",
            &DevicePart::reserved_bytes},
    Measure{"limbo_bytes",
            false,
            "Device memory that was freed while work that used it is in flight.",
            &DevicePart::limbo_bytes},
    Measure{"asleep_bytes",
            false,
            "Device memory of which the contents are in host memory.",
            &DevicePart::asleep_bytes},
    Measure{
        "allocations_total", true, "Allocations of device memory.", &DevicePart::allocations},
    Measure{"frees_total", true, "Frees of device memory.", &DevicePart::frees},
    Measure{"driver_calls_total",
            true,
            "Driver calls that allocated or freed device memory.",
            &DevicePart::driver_calls},
    Measure{"pages_moved_total",
            true,
            "Pages mapped at another address instead of made.",
            &DevicePart::pages_moved},
    Measure{"gpu_waits_total",
            true,
            "Waits inserted on the GPU before a submission.",
            &DevicePart::gpu_waits},
    Measure{"free_waits_total", true, "Frees that waited.", &DevicePart::free_waits},
    Measure{"stalls_avoided_total",
            true,
            "Frees that would have waited for the device without custash.",
            &DevicePart::stalls_avoided},
    Measure{"by_driver_bytes",
            false,
            "Device memory of handles, arrays and the like that the driver serves itself.",
            &DevicePart::by_driver_bytes},
    Measure{"ooms_total", true, "Allocations that failed for memory.", &DevicePart::ooms},
};

class Writer {
 public:
  Writer(const Look& look, const std::string& host)
      : look_(look), host_("host=" + label_text(host)), uses_(uses_of(look)) {}

  std::string text() {
    add_head(out_, "custash_processes", "gauge", "Processes of this user under custash.");
    add_sample(out_, "custash_processes", host_, std::to_string(look_.seen.size()));
    for (const Measure& each : kMeasures)
      add_measure(each);
    add_of_process("pinned_bytes",
                   "Pinned host memory that custash holds.",
                   [](const Seen& each) { return std::to_string(each.page.pinned_bytes); });
    add_of_process("answered",
                   "1 if the process answered, 0 if the numbers are its last ones.",
                   [](const Seen& each) { return std::string(each.answered ? "1" : "0"); });
    add_of_process("age_seconds", "How old the numbers are.", [this](const Seen& each) {
      std::string age;
      add(age, "%.3f", age_of(look_, each.page));
      return age;
    });
    add_passed();
    add_devices();
    add_hardware();
    return std::move(out_);
  }

 private:
  [[nodiscard]] std::string labels_of(const Seen& seen) const {
    const auto found = look_.programs.find(seen.page.pid);
    const Program program =
        found == look_.programs.end() ? Program{seen.page.name, {}} : found->second;
    return host_ + ",pid=\"" + std::to_string(seen.page.pid) +
           "\",program=" + label_text(program.name) + ",rank=\"" +
           (program.rank ? std::to_string(*program.rank) : "") + "\"";
  }

  void add_measure(const Measure& measure) {
    const std::string name = std::string("custash_process_") + measure.name;
    add_head(out_, name, measure.counts ? "counter" : "gauge", measure.help);
    for (const Seen& each : look_.seen) {
      const std::string labels = labels_of(each);
      for (std::int64_t i = 0; i < each.page.device_count; ++i) {
        const DevicePart& part = each.page.devices[i];
        if (!is_used(part)) continue;
        const std::string device = std::to_string(number_of(uses_, part));
        add_sample(out_,
                   name,
                   labels + ",device=\"" + device + "\"",
                   std::to_string(part.*measure.value));
      }
    }
  }

  template <typename Value>
  void add_of_process(const char* ending, const char* help, Value value) {
    const std::string name = std::string("custash_process_") + ending;
    add_head(out_, name, "gauge", help);
    for (const Seen& each : look_.seen)
      add_sample(out_, name, labels_of(each), value(each));
  }

  void add_passed() {
    struct Part {
      const char* name;
      const char* type;
      const char* help;
      std::int64_t PassedPart::*value;
    };

    constexpr std::array kParts = {
        Part{"passed_total",
             "counter",
             "Allocations of device memory that the driver served itself.",
             &PassedPart::allocations},
        Part{"passed_bytes_total", "counter", "Their bytes.", &PassedPart::allocated_bytes},
        Part{"passed_live",
             "gauge",
             "Handles, arrays and the like that the program has.",
             &PassedPart::live},
        Part{"passed_live_bytes", "gauge", "Their bytes.", &PassedPart::live_bytes},
    };
    for (const Part& part : kParts) {
      const std::string name = std::string("custash_process_") + part.name;
      add_head(out_, name, part.type, part.help);
      for (const Seen& each : look_.seen)
        for (std::size_t i = 0; i < kPassedKinds; ++i)
          if (each.page.by_driver[i].allocations != 0 || each.page.by_driver[i].live != 0)
            add_sample(out_,
                       name,
                       labels_of(each) +
                           ",kind=" + label_text(passed::name_of(static_cast<passed::Kind>(i))),
                       std::to_string(each.page.by_driver[i].*part.value));
    }
  }

  void add_devices() {
    struct Part {
      const char* name;
      const char* help;
      std::optional<Bytes> (*value)(const DeviceUse& use);
    };

    using Value = std::optional<Bytes>;
    constexpr std::array kParts = {
        Part{"total_bytes",
             "Memory of the device.",
             [](const DeviceUse& use) { return Value(use.total); }},
        Part{"in_use_bytes",
             "Memory that programs under custash own.",
             [](const DeviceUse& use) { return Value(use.in_use); }},
        Part{"cached_bytes",
             "Memory that custash holds and no program uses.",
             [](const DeviceUse& use) { return Value(use.cached); }},
        Part{"others_bytes",
             "Memory that other programs and CUDA itself hold, by NVML.",
             [](const DeviceUse& use) { return use.others; }},
    };
    for (const Part& part : kParts) {
      const std::string name = std::string("custash_device_") + part.name;
      add_head(out_, name, "gauge", part.help);
      for (const DeviceUse& use : uses_)
        if (const Value value = part.value(use))
          add_sample(out_,
                     name,
                     host_ + ",device=\"" + std::to_string(use.number) + "\"",
                     std::to_string(*value));
    }
  }

  // By the names of OpenTelemetry's conventions for hardware, as Prometheus spells them.
  void add_hardware() {
    const auto add = [&](const char* name, const char* help, auto value) {
      add_head(out_, name, "gauge", help);
      for (const DeviceUse& use : uses_)
        if (!use.uuid.empty())
          add_sample(
              out_, name, host_ + ",hw_id=" + label_text(use.uuid), std::to_string(value(use)));
    };
    add("hw_gpu_memory_limit_bytes", "Memory of the GPU.", [](const DeviceUse& use) {
      return use.total;
    });
    add("hw_gpu_memory_usage_bytes",
        "Memory of the GPU that is in use, by whatever program.",
        [](const DeviceUse& use) { return use.in_use + use.cached + use.others.value_or(0); });
  }

  const Look& look_;
  const std::string host_;
  const std::vector<DeviceUse> uses_;
  std::string out_;
};

}  // namespace

std::string label_text(const std::string& value) {
  std::string text = "\"";
  for (const char c : printable(value)) {
    if (c == '"' || c == '\\') text += '\\';
    text += c;
  }
  return text + "\"";
}

std::string metrics_of(const Look& look, const std::string& host) {
  return Writer(look, host).text();
}

}  // namespace custash::live
