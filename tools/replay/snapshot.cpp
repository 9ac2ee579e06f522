// SPDX-License-Identifier: MIT
#include "tools/replay/pickle.hpp"
#include "tools/replay/trace.hpp"
#include "tools/replay/trace_builder.hpp"

#include <algorithm>
#include <map>
#include <unordered_set>

namespace custash::replay {
namespace {

using Ref = Pickle::Ref;

struct Entry {
  bool is_alloc = false;
  std::uint64_t address = 0;
  Bytes bytes = 0;
  std::uint64_t stream = 0;
  Nanoseconds time = 0;
};

std::uint64_t natural(const Pickle& pickle, Ref dict, std::string_view key) {
  return static_cast<std::uint64_t>(
      std::max<std::int64_t>(0, pickle.integer(pickle.get(dict, key))));
}

std::vector<Entry> entries_of(const Pickle& pickle, Ref device) {
  std::vector<Entry> entries;
  for (const Ref item : pickle.items(device)) {
    const std::string_view action = pickle.text(pickle.get(item, "action"));
    // free_completed follows free_requested when PyTorch may use the memory again: its affair.
    if (action != "alloc" && action != "free_requested") continue;
    entries.push_back({action == "alloc",
                       natural(pickle, item, "addr"),
                       natural(pickle, item, "size"),
                       natural(pickle, item, "stream"),
                       natural(pickle, item, "time_us") * 1000});
  }
  return entries;
}

using Blocks = std::map<std::uint64_t, Bytes>;  // by address

// The blocks that were in use when the snapshot was taken.
Blocks in_use_at_the_end(const Pickle& pickle, std::int64_t device) {
  Blocks blocks;
  for (const Ref segment : pickle.items(pickle.get(pickle.root(), "segments"))) {
    if (pickle.integer(pickle.get(segment, "device")) != device) continue;
    std::uint64_t address = natural(pickle, segment, "address");
    for (const Ref block : pickle.items(pickle.get(segment, "blocks"))) {
      const Bytes size = natural(pickle, block, "size");
      const Bytes requested = natural(pickle, block, "requested_size");
      if (pickle.text(pickle.get(block, "state")) == "active_allocated")
        blocks[address] = requested == 0 ? size : requested;
      address += size;
    }
  }
  return blocks;
}

// Blocks older than the entries: freed without having been allocated, or in use at the end.
Blocks older(const std::vector<Entry>& entries, const Blocks& at_the_end) {
  Blocks found;
  std::unordered_set<std::uint64_t> live;
  for (const Entry& entry : entries) {
    if (entry.is_alloc)
      live.insert(entry.address);
    else if (live.erase(entry.address) == 0)
      found.emplace(entry.address, entry.bytes);
  }
  for (const auto& [address, bytes] : at_the_end)
    if (!live.contains(address)) found.emplace(address, bytes);
  return found;
}

class Conversion {
 public:
  explicit Conversion(const std::string& name) : name_(name), builder_(name) {}

  void add(const Entry& entry) {
    const auto size = sizes_.find(entry.address);
    if (size != sizes_.end())
      free(entry, size->second);  // also where its free was not recorded
    if (!entry.is_alloc || entry.bytes == 0) return;
    sizes_[entry.address] = entry.bytes;
    must(entry.stream == 0
             ? builder_.alloc(entry.time, Kind::Alloc, entry.address, entry.bytes)
             : builder_.alloc_on(
                   entry.time, Kind::Alloc, entry.address, entry.bytes, entry.stream));
  }

  Trace finish() { return builder_.finish(); }

 private:
  void free(const Entry& entry, Bytes bytes) {
    must(entry.stream == 0
             ? builder_.free(entry.time, Kind::Free, entry.address, bytes)
             : builder_.free_on(entry.time, Kind::Free, entry.address, bytes, entry.stream));
    sizes_.erase(entry.address);
  }

  void must(const char* why) const {
    if (why != nullptr) throw BadTrace(name_ + ": " + why);
  }

  std::string name_;
  TraceBuilder builder_;
  std::unordered_map<std::uint64_t, Bytes> sizes_;
};

}  // namespace

bool looks_like_pickle(std::string_view bytes) {
  constexpr char kProto = '\x80';
  return !bytes.empty() && bytes.front() == kProto;
}

Trace parse_snapshot(const std::string& name, std::string_view bytes) {
  const Pickle pickle(name, bytes);
  const std::vector<Ref>& devices = pickle.items(pickle.get(pickle.root(), "device_traces"));
  std::vector<Entry> entries;
  std::int64_t device = 0;
  for (std::size_t d = 0; d < devices.size(); ++d) {
    std::vector<Entry> of_device = entries_of(pickle, devices[d]);
    if (of_device.size() <= entries.size()) continue;
    entries = std::move(of_device);
    device = static_cast<std::int64_t>(d);
  }
  if (entries.empty())
    throw BadTrace(name + ": no device_traces in it (was memory history recorded?)");
  Conversion conversion(name);
  for (const auto& [address, size] : older(entries, in_use_at_the_end(pickle, device)))
    conversion.add({true, address, size, 0, entries.front().time});
  for (const Entry& entry : entries)
    conversion.add(entry);
  return conversion.finish();
}

}  // namespace custash::replay
