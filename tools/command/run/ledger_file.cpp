// SPDX-License-Identifier: MIT
#include "tools/command/run/folder.hpp"

#include <algorithm>
#include <iterator>
#include <map>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace custash::run {
namespace {

using ledger::Copy;

class File {
 public:
  explicit File(const std::string& path)
      : file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)) {
    struct stat info {};

    if (file_ >= 0 && fstat(file_, &info) == 0 && S_ISREG(info.st_mode))
      size_ = static_cast<std::uint64_t>(info.st_size);
    // A file may claim to be larger than it is.
    constexpr std::uint64_t kUnit = 512;
    filled_ = static_cast<std::uint64_t>(info.st_blocks) * kUnit;
  }

  ~File() {
    if (file_ >= 0) ::close(file_);
  }

  File(const File&) = delete;
  File& operator=(const File&) = delete;

  bool read(std::uint64_t offset, void* to, std::uint64_t bytes) const {
    if (offset > size_ || bytes > size_ - offset) return false;
    auto* at = static_cast<char*>(to);
    for (std::uint64_t done = 0; done < bytes;) {
      const ssize_t got =
          pread(file_, at + done, bytes - done, static_cast<off_t>(offset + done));
      if (got <= 0) return false;
      done += static_cast<std::uint64_t>(got);
    }
    return true;
  }

  template <typename Row>
  bool rows(const ledger::Area& area, std::vector<Row>* out) const {
    const ledger::Extent& place = area.places[area.which % 2];
    const std::uint64_t count = std::min(area.count, place.capacity);
    if (area.row != sizeof(Row) || count > filled_ / sizeof(Row)) return false;
    out->resize(count);
    return read(place.offset, out->data(), count * sizeof(Row));
  }

 private:
  int file_;
  std::uint64_t size_ = 0;
  std::uint64_t filled_ = 0;
};

// The final state, as the process has put it down.
std::vector<Inventory> held_of(const Copy& copy, std::size_t devices) {
  std::vector<Inventory> out(devices);
  std::uint64_t pages = 0;
  std::uint64_t pieces = 0;
  for (const ledger::HeldRow& row : copy.held) {
    if (row.device >= devices || row.pages_end < pages || row.pieces_end < pieces ||
        row.pages_end > copy.pages.size() || row.pieces_end > copy.pieces.size())
      break;
    HeldSegment& segment = out[row.device].emplace_back();
    segment.base = row.base;
    segment.size = row.size;
    segment.pool = static_cast<StatPool>(std::min<unsigned>(row.pool, 2));
    segment.mapped = row.mapped != 0;
    segment.stream = reinterpret_cast<CUstream>(row.stream);  // NOLINT: only told, never used
    segment.pages.assign(copy.pages.data() + pages, copy.pages.data() + row.pages_end);
    segment.pieces.assign(copy.pieces.data() + pieces, copy.pieces.data() + row.pieces_end);
    for (Piece& piece : segment.pieces)
      if (piece.state > PieceState::Used) piece.state = PieceState::Free;
    pages = row.pages_end;
    pieces = row.pieces_end;
  }
  return out;
}

void add_pieces(HeldSegment* segment, const std::map<Address, Bytes>& blocks) {
  const Address end = segment->base + segment->size;
  Address at = segment->base;
  for (auto it = blocks.lower_bound(at); it != blocks.end() && it->first < end; ++it) {
    if (it->first < at || it->second > end - it->first) continue;
    if (it->first > at) segment->pieces.push_back({at, it->first - at, 0, PieceState::Free});
    segment->pieces.push_back({it->first, it->second, it->second, PieceState::Used});
    at = it->first + it->second;
  }
  if (at < end) segment->pieces.push_back({at, end - at, 0, PieceState::Free});
}

// After a sudden end: what the driver gave, and the blocks that lived in it. What is between
// them was free or waited for work.
std::vector<Inventory> rebuilt(const Copy& copy,
                               const history::Reading& history,
                               std::size_t devices) {
  std::vector<ledger::SegmentRow> rows = copy.segments;
  std::erase_if(rows, [&](const ledger::SegmentRow& row) {
    return row.address == 0 || row.device >= devices || row.bytes > ~row.address;
  });
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return a.address < b.address;
  });
  std::vector<Inventory> out(devices);
  for (const ledger::SegmentRow& row : rows) {
    Inventory& held = out[row.device];
    const bool joins = row.mapped != 0 && !held.empty() && held.back().mapped &&
                       held.back().base + held.back().size == row.address;
    if (!joins)
      held.push_back({row.address, 0, StatPool::Large, row.mapped != 0, nullptr, {}, {}});
    held.back().size += row.bytes;
    if (row.mapped != 0) held.back().pages.push_back(row.bytes);
  }
  std::map<Address, Bytes> blocks;
  for (const auto& [address, live] : history.live)
    if (history.sites[live.site].memory == observe::MemoryKind::Device)
      blocks[address] = live.bytes;
  for (Inventory& held : out)
    for (HeldSegment& segment : held)
      add_pieces(&segment, blocks);
  return out;
}

void set_current(custash_counter_t* counter, std::int64_t value) {
  counter->current = value;
  counter->peak = std::max(counter->peak, value);
}

// Counts are exact; the rest is as old as the last copy, and corrected by what lived at the
// end.
void bring_up_to_date(const Copy& copy,
                      const ledger::Counters& counters,
                      std::size_t device,
                      const history::Reading& history,
                      custash_device_stats_t* stats) {
  custash_counter_t& blocks = stats->allocation[CUSTASH_ALL];
  blocks.allocated +=
      static_cast<std::int64_t>(copy.head.allocated[device] - counters.allocated[device]);
  blocks.freed += static_cast<std::int64_t>(copy.head.freed[device] - counters.freed[device]);
  set_current(&blocks, blocks.allocated - blocks.freed);
  if (history.sites.empty()) return;
  std::int64_t requested = 0;
  for (const history::Site& site : history.sites)
    if (site.memory == observe::MemoryKind::Device && site.device == static_cast<int>(device))
      requested += site.bytes;
  set_current(&stats->requested_bytes[CUSTASH_ALL], requested);
}

// Frames by what the process has noted of its files and of Python.
class Places {
 public:
  explicit Places(const Copy& copy) : copy_(copy) {
    for (const ledger::ModuleRow& row : copy.modules)
      modules_[row.begin] = &row;
  }

  Frame operator()(stacks::Word word) const {
    Frame frame;
    if ((word & stacks::kPython) != 0) {
      const std::uint64_t code = word << 1U >> 33U;  // as python_frames.hpp has it
      frame.file.assign(1, '?');
      if (code < copy_.codes.size()) {
        frame.name = text_of(copy_, copy_.codes[code].function);
        frame.file = text_of(copy_, copy_.codes[code].file);
      }
      frame.line = static_cast<int>(word & 0x7fffffffU);
      return frame;
    }
    frame.offset = word - 1;  // a return address may lie behind its function
    const auto after = modules_.upper_bound(frame.offset);
    if (after == modules_.begin()) return frame;
    const ledger::ModuleRow& row = *std::prev(after)->second;
    if (frame.offset >= row.end || row.path.size == 0) return frame;
    frame.module = text_of(copy_, row.path);
    frame.build_id = text_of(copy_, row.build_id);
    frame.offset -= row.bias;
    return frame;
  }

 private:
  const Copy& copy_;
  std::map<std::uint64_t, const ledger::ModuleRow*> modules_;
};

}  // namespace

const ledger::Counters* counters_of(const Copy& copy) {
  const std::uint64_t which = copy.head.counters_which;
  return which < copy.counters.size() ? &copy.counters[which] : nullptr;
}

std::optional<Copy> read_ledger(const std::string& path) {
  const File file(path);
  Copy copy;
  ledger::Header& head = copy.head;
  if (!file.read(0, &head, sizeof head) || head.magic != ledger::kMagic ||
      head.size != sizeof head || head.version != CUSTASH_VERSION)
    return std::nullopt;
  const bool good =
      file.rows(head.events, &copy.events) && file.rows(head.sites, &copy.sites) &&
      file.rows(head.live, &copy.live) && file.rows(head.segments, &copy.segments) &&
      file.rows(head.words, &copy.words) && file.rows(head.ends, &copy.ends) &&
      file.rows(head.modules, &copy.modules) && file.rows(head.codes, &copy.codes) &&
      file.rows(head.texts, &copy.texts) && file.rows(head.counters, &copy.counters) &&
      file.rows(head.held, &copy.held) && file.rows(head.pages, &copy.pages) &&
      file.rows(head.pieces, &copy.pieces);
  if (!good) return std::nullopt;
  return copy;
}

std::string text_of(const Copy& copy, ledger::TextPlace place) {
  if (place.begin > copy.texts.size() || place.size > copy.texts.size() - place.begin)
    return "";
  return {copy.texts.data() + place.begin, place.size};
}

snapshot::Snapshot snapshot_of(Copy copy, const std::string& ended_by) {
  snapshot::Snapshot out;
  out.pid = static_cast<int>(copy.head.pid);
  out.program = text_of(copy, copy.head.program);
  out.ended_by = ended_by;
  copy.whole = ended_by.empty();
  out.time = copy.whole ? copy.head.ended : ledger::clock_now();
  out.history = reading_of(copy);
  const ledger::Counters* const counters = counters_of(copy);
  const std::size_t devices =
      counters == nullptr ? 0 : std::min<std::uint64_t>(counters->devices, ledger::kCounted);
  std::vector<Inventory> held =
      copy.whole ? held_of(copy, devices) : rebuilt(copy, out.history, devices);
  const snapshot::StackOf stacks = snapshot::stack_of_blocks(out.history);
  for (std::size_t i = 0; i < devices; ++i) {
    custash_device_stats_t stats = counters->device[i];
    stats.device = static_cast<std::int64_t>(i);
    if (!copy.whole) bring_up_to_date(copy, *counters, i, out.history, &stats);
    out.devices.push_back(snapshot::device_state(stats, std::move(held[i]), stacks));
  }
  if (counters != nullptr) {
    out.host_stats = counters->host.flatten();
    out.passed = counters->passed;
  }
  Symbols symbols(Places(copy), "");
  for (const auto& stack : out.history.stacks)
    out.stacks.push_back(symbols.frames_of(stack));
  out.frames = symbols.frames();
  return out;
}

}  // namespace custash::run
