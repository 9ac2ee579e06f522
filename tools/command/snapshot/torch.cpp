// SPDX-License-Identifier: MIT
// PyTorch's snapshot (torch.cuda.memory._dump_snapshot) as custash's. What PyTorch does not
// write down is worked out from its events: call sites, peaks, how long blocks live.
#include "interpose/history/frame.hpp"
#include "tools/command/snapshot/read.hpp"
#include "tools/command/snapshot/torch_budget.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace custash::snapshot {
namespace {

using replay::Pickle;
using Ref = Pickle::Ref;

// Sums of so many sizes of at most so much have room in 64 bits.
constexpr std::int64_t kMostBytes = std::int64_t{1} << 40;

struct Live {
  std::int64_t bytes = 0;
  std::int64_t stack = -1;
  std::int64_t since = 0;
};

struct Event {
  std::int64_t time = 0;
  std::string action;
  std::int64_t address = 0;
  std::int64_t bytes = 0;
  std::int64_t stream = 0;
  std::int64_t stack = -1;
  std::int64_t freed_by = -1;  // of a free
};

struct Site {
  std::int64_t blocks = 0, bytes = 0, peak = 0, at_peak = 0, allocations = 0, allocated = 0;
};

class Conversion {
 public:
  Conversion(const std::string& name, std::string_view bytes, const Told& progress)
      : name_(name), pickle_(name, bytes, progress), budget_(name) {}

  Json run() {
    const auto& traces = pickle_.items(pickle_.get(pickle_.root(), "device_traces"));
    const auto& segments = pickle_.items(pickle_.get(pickle_.root(), "segments"));
    if (traces.empty() && segments.empty())
      throw BadSnapshot(name_ + ": a pickle, but no memory snapshot of PyTorch");
    auto devices = static_cast<std::int64_t>(traces.size());
    constexpr std::int64_t kMostDevices = 1024;
    for (const Ref segment : segments)
      devices = std::max(devices, natural(segment, "device") + 1);
    if (devices > kMostDevices) throw BadSnapshot(name_ + ": segments.device: too large");
    for (std::int64_t device = 0; device < devices; ++device)
      add_device(device,
                 device < static_cast<std::int64_t>(traces.size())
                     ? pickle_.items(traces[static_cast<std::size_t>(device)])
                     : std::vector<Ref>());
    Json history = {{"on", false},
                    {"depth", 0},
                    {"since_us", 0},
                    {"events_seen", events_.size()},
                    {"events_lost", 0},
                    {"stacks_lost", 0},
                    {"tracked", tracked_},
                    {"sites", sites_},
                    {"events", events_}};
    return {{"format", "custash snapshot 1"},
            {"version", 0},
            {"pid", 0},
            {"program", name_},
            {"time_us", last_time_},
            {"devices", devices_},
            {"host_stats", Json::object()},
            {"history", history},
            {"frames", frames_},
            {"stacks", stacks_}};
  }

 private:
  std::int64_t natural(Ref dict, std::string_view key) const {
    return std::clamp<std::int64_t>(pickle_.integer(pickle_.get(dict, key)), 0, kMost);
  }

  std::int64_t bytes_of(Ref dict, std::string_view key) const {
    const std::int64_t bytes = natural(dict, key);
    if (bytes > kMostBytes)
      throw BadSnapshot(name_ + ": " + std::string(key) + ": larger than any device");
    return bytes;
  }

  std::int64_t frame_of(Ref frame) {
    const auto text = [&](const char* key) {
      const std::string_view found = pickle_.text(pickle_.get(frame, key));
      budget_.count_text(found);
      pickle_.spend(found.size());
      return std::string(found);
    };
    const std::string file = text("filename");
    const std::string name = text("name");
    const std::int64_t line = natural(frame, "line");
    // custash's own keys, with which the line can be found.
    const std::string module = text("module");
    const std::string build_id = text("build_id");
    const std::int64_t offset = natural(frame, "offset");
    const bool ours = pickle_.get(frame, "offset") != Pickle::kNothing;
    const auto [it, fresh] =
        known_frames_.try_emplace(file + "\n" + name + "\n" + std::to_string(line) + "\n" +
                                      module + "\n" + std::to_string(offset),
                                  static_cast<std::int64_t>(frames_.size()));
    if (fresh) {
      budget_.count_frame(it->first);
      const bool source = ours ? file != module : file != "??" && line > 0;
      const std::string unnamed = place_in(module, static_cast<std::uint64_t>(offset));
      frames_.push_back({{"module", source || ours ? module : file},
                         {"build_id", build_id},
                         {"offset", offset},
                         {"name", ours && name == unnamed ? "" : name},
                         {"file", source ? file : ""},
                         {"line", source ? line : 0}});
    }
    return it->second;
  }

  std::int64_t stack_of(Ref owner) {
    const Ref list = pickle_.get(owner, "frames");
    if (list == Pickle::kNothing || pickle_.items(list).empty()) return -1;
    if (const auto seen = stack_of_ref_.find(list); seen != stack_of_ref_.end())
      return seen->second;
    budget_.count_stack(pickle_.items(list).size());
    std::vector<std::int64_t> stack;
    for (const Ref frame : pickle_.items(list))
      stack.push_back(frame_of(frame));
    const auto [it, fresh] =
        known_stacks_.try_emplace(stack, static_cast<std::int64_t>(stacks_.size()));
    if (fresh) stacks_.push_back(stack);
    return stack_of_ref_[list] = it->second;
  }

  Json segment_of(Ref segment, std::unordered_map<std::int64_t, Live>* live, Site* all) {
    Json blocks = Json::array();
    const std::int64_t base = natural(segment, "address");
    std::int64_t at = base;
    for (const Ref block : pickle_.items(pickle_.get(segment, "blocks"))) {
      budget_.count_item();
      const std::int64_t size = bytes_of(block, "size");
      if (size == 0 || size > kMost - at)
        throw BadSnapshot(name_ + ": segments.blocks: a wrong size");
      const std::string_view state = pickle_.text(pickle_.get(block, "state"));
      const bool used = state == "active_allocated";
      const bool limbo = state == "active_pending_free" || state == "active_awaiting_free";
      const std::int64_t asked = bytes_of(block, "requested_size");
      const std::int64_t stack = used ? stack_of(block) : -1;
      blocks.push_back({at,
                        size,
                        used ? (asked == 0 ? size : asked) : 0,
                        used    ? "used"
                        : limbo ? "limbo"
                                : "free",
                        stack});
      if (used) {
        (*live)[at] = {asked == 0 ? size : asked, stack, 0};
        all->bytes += size;
        ++all->blocks;
      }
      at += size;
    }
    const bool pages = pickle_.integer(pickle_.get(segment, "is_expandable")) != 0;
    const bool small = pickle_.text(pickle_.get(segment, "segment_type")) == "small";
    return {{"address", base},
            {"size", at - base},
            {"pool", small ? "small_pool" : "large_pool"},
            {"made_of", pages ? "pages" : "driver"},
            {"stream", natural(segment, "stream")},
            {"pages", Json::array()},
            {"blocks", blocks}};
  }

  std::vector<Event> events_of(const std::vector<Ref>& trace) {
    std::vector<Event> out;
    for (const Ref item : trace) {
      std::string action(pickle_.text(pickle_.get(item, "action")));
      if (action == "free_requested") action = "free";
      const bool known = action == "alloc" || action == "free" || action == "oom" ||
                         action == "segment_alloc" || action == "segment_free" ||
                         action == "segment_map" || action == "segment_unmap";
      if (!known) continue;
      budget_.count_item();
      out.push_back({natural(item, "time_us"),
                     action,
                     natural(item, "addr"),
                     bytes_of(item, "size"),
                     natural(item, "stream"),
                     stack_of(item)});
      if (action == "free") out.back().freed_by = std::exchange(out.back().stack, -1);
      last_time_ = std::max(last_time_, out.back().time);
    }
    return out;
  }

  // Runs through the events; what was there before them is worked out backwards from the end.
  void follow(std::int64_t device,
              std::vector<Event>& events,
              const std::unordered_map<std::int64_t, Live>& at_the_end,
              Json* stats) {
    std::unordered_map<std::int64_t, Live> live = at_the_end;
    for (auto event = events.rbegin(); event != events.rend(); ++event) {
      if (event->action == "alloc") {
        // PyTorch gives a block its call site in the segments only while it lives.
        live.erase(event->address);
      } else if (event->action == "free") {
        live[event->address] = {event->bytes, -1, 0};
      }
    }
    std::map<std::int64_t, Site> sites;
    std::map<std::int64_t, std::int64_t> lifetimes;
    std::int64_t total = 0;
    std::int64_t peak = -1;
    const auto change = [&](const Live& block, int sign) {
      Site& site = sites[block.stack];
      site.bytes += sign * block.bytes;
      site.blocks += sign;
      site.peak = std::max(site.peak, site.bytes);
      total += sign * block.bytes;
      if (total > peak) {
        peak = total;
        raised_ = true;
      }
    };
    for (const auto& [address, block] : live)
      change(block, 1);
    std::size_t peak_at = 0;
    raised_ = false;
    std::int64_t allocations = 0;
    for (std::size_t i = 0; i < events.size(); ++i) {
      Event& event = events[i];
      const auto old = live.find(event.address);
      if (event.action == "alloc") {
        if (old != live.end()) change(old->second, -1);
        const Live block{event.bytes, event.stack, event.time};
        live[event.address] = block;
        change(block, 1);
        ++allocations;
        ++sites[event.stack].allocations;
        sites[event.stack].allocated += event.bytes;
      } else if (event.action == "free" && old != live.end()) {
        const Live block = old->second;
        event.stack = block.stack;  // as custash tells it: whose memory it was
        if (block.since > 0) {
          const auto age =
              static_cast<std::uint64_t>(std::max<std::int64_t>(1, event.time - block.since)) *
              1000;
          ++lifetimes[static_cast<std::int64_t>(std::bit_ceil(age))];
        }
        change(block, -1);
        live.erase(old);
      }
      if (raised_) peak_at = i + 1;
      raised_ = false;
    }
    find_peak(events, peak_at, at_the_end, &sites);
    write_sites(device, sites);
    Json tracked = {{"bytes", total},
                    {"peak_bytes", std::max<std::int64_t>(0, peak)},
                    {"lifetimes_up_to_ns", Json::object()}};
    for (const auto& [up_to, count] : lifetimes)
      tracked["lifetimes_up_to_ns"][std::to_string(up_to)] = count;
    tracked_.push_back(tracked);
    (*stats)["allocated_bytes.all.peak"] =
        std::max((*stats)["allocated_bytes.all.current"].get<std::int64_t>(), peak);
    (*stats)["allocation.all.allocated"] = allocations;
  }

  // A second run, to the peak alone.
  static void find_peak(const std::vector<Event>& events,
                        std::size_t until,
                        const std::unordered_map<std::int64_t, Live>& at_the_end,
                        std::map<std::int64_t, Site>* sites) {
    std::unordered_map<std::int64_t, Live> live = at_the_end;
    for (std::size_t i = events.size(); i > until; --i) {
      const Event& event = events[i - 1];
      if (event.action == "alloc") live.erase(event.address);
      if (event.action == "free") live[event.address] = {event.bytes, event.stack, 0};
    }
    for (const auto& [address, block] : live)
      (*sites)[block.stack].at_peak += block.bytes;
  }

  void write_sites(std::int64_t device, const std::map<std::int64_t, Site>& sites) {
    for (const auto& [stack, site] : sites) {
      sites_.push_back({{"stack", stack},
                        {"device", device},
                        {"memory", "device"},
                        {"caller", ""},
                        {"blocks", site.blocks},
                        {"bytes", site.bytes},
                        {"peak_bytes", site.peak},
                        {"at_peak_bytes", site.at_peak},
                        {"allocations", site.allocations},
                        {"allocated_bytes", site.allocated},
                        {"growing", false}});
    }
  }

  void add_device(std::int64_t device, const std::vector<Ref>& trace) {
    std::unordered_map<std::int64_t, Live> live;
    Site all;
    Json segments = Json::array();
    std::int64_t held = 0, free = 0, limbo = 0, largest = 0, requested = 0;
    for (const Ref segment : pickle_.items(pickle_.get(pickle_.root(), "segments"))) {
      if (natural(segment, "device") != device) continue;
      budget_.count_segment();
      segments.push_back(segment_of(segment, &live, &all));
    }
    std::sort(segments.begin(), segments.end(), [](const Json& a, const Json& b) {
      return a.at("address") < b.at("address");
    });
    for (const Json& segment : segments) {
      held += segment.at("size").get<std::int64_t>();
      for (const Json& block : segment.at("blocks")) {
        const auto size = block[1].get<std::int64_t>();
        requested += block[2].get<std::int64_t>();
        if (block[3] == "limbo") limbo += size;
        if (block[3] != "free") continue;
        free += size;
        largest = std::max(largest, size);
      }
    }
    std::vector<Event> events = events_of(trace);
    std::int64_t driver_allocs = 0, driver_frees = 0, ooms = 0, held_now = held,
                 held_peak = held;
    for (auto event = events.rbegin(); event != events.rend(); ++event) {
      const bool made = event->action == "segment_alloc" || event->action == "segment_map";
      const bool gone = event->action == "segment_free" || event->action == "segment_unmap";
      driver_allocs += made ? 1 : 0;
      driver_frees += gone ? 1 : 0;
      ooms += event->action == "oom" ? 1 : 0;
      held_now += made ? -event->bytes : gone ? event->bytes : 0;
      held_peak = std::max(held_peak, held_now);
    }
    Json stats = {
        {"allocated_bytes.all.current", all.bytes},
        {"reserved_bytes.all.current", held},
        {"reserved_bytes.all.peak", held_peak},
        {"requested_bytes.all.current", requested},
        {"num_device_alloc", driver_allocs},
        {"num_device_free", driver_frees},
        {"num_ooms", ooms},
        {"custash.free_bytes", free},
        {"custash.largest_free_block", largest},
        {"custash.limbo_bytes", limbo},
        {"custash.fragmentation",
         free == 0 ? 0
                   : 1000 - static_cast<std::int64_t>(1000.0 * static_cast<double>(largest) /
                                                      static_cast<double>(free))},
        {"custash.num_stalls_avoided", 0}};
    follow(device, events, live, &stats);
    for (const Event& event : events) {
      events_.push_back({event.time,
                         event.action,
                         device,
                         "device",
                         event.address,
                         event.bytes,
                         event.stream,
                         event.stack});
      if (event.action == "free") events_.back().push_back(event.freed_by);
    }
    devices_.push_back({{"device", device}, {"stats", stats}, {"segments", segments}});
  }

  const std::string name_;
  const Pickle pickle_;
  TorchBudget budget_;
  Json devices_ = Json::array(), events_ = Json::array(), sites_ = Json::array();
  Json tracked_ = Json::array(), frames_ = Json::array(), stacks_ = Json::array();
  std::unordered_map<std::string, std::int64_t> known_frames_;
  std::map<std::vector<std::int64_t>, std::int64_t> known_stacks_;
  std::unordered_map<Ref, std::int64_t> stack_of_ref_;
  std::int64_t last_time_ = 0;
  bool raised_ = false;
};

}  // namespace

Json from_torch(const std::string& name, std::string_view bytes, const Told& progress) {
  return Conversion(name, bytes, progress).run();
}

}  // namespace custash::snapshot
