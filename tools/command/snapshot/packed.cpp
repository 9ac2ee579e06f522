// SPDX-License-Identifier: MIT
#include "tools/command/snapshot/packed.hpp"

#include "interpose/history/snapshot.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <unordered_map>
#include <utility>
#include <vector>

#define ZLIB_CONST  // what it reads is const
#include <zlib.h>

namespace custash::snapshot {
namespace {

using Values = std::vector<std::uint64_t>;

constexpr std::string_view kDigits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::size_t kLargest = std::size_t{4} << 30;
// Where an event has what.
constexpr std::size_t kTime = 0, kAction = 1, kDevice = 2, kMemory = 3, kAddress = 4,
                      kStack = 7, kFreedBy = 8;
constexpr std::array<std::size_t, 3> kListed = {4, 5, 6};  // address, size, stream

void add_number(std::string* out, std::uint64_t number) {
  constexpr std::uint64_t kMore = 0x80;
  for (; number >= kMore; number >>= 7)
    *out += static_cast<char>(number | kMore);
  *out += static_cast<char>(number);
}

template <typename Words>
std::uint64_t place_of(const Words& words, const Json& word) {
  return static_cast<std::uint64_t>(std::find(std::begin(words), std::end(words), word) -
                                    std::begin(words));
}

Values values_of(const Json::array_t& events, std::size_t member) {
  Values values;
  values.reserve(events.size());
  for (const Json& event : events)
    values.push_back(event[member].get<std::uint64_t>());
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

using Places = std::vector<std::size_t>;
constexpr std::size_t kNoPlace = std::numeric_limits<std::size_t>::max();

// For each free, the latest earlier alloc of its address.
Places allocations_of(const Json::array_t& events) {
  Places out(events.size(), kNoPlace);
  std::unordered_map<std::uint64_t, std::size_t> latest;
  for (std::size_t i = 0; i < events.size(); ++i) {
    const auto address = events[i][kAddress].get<std::uint64_t>();
    if (events[i][kAction] == "alloc") {
      latest[address] = i;
    } else if (events[i][kAction] == "free") {
      const auto found = latest.find(address);
      if (found != latest.end()) out[i] = found->second;
    }
  }
  return out;
}

std::string packed_events(const Json::array_t& events) {
  std::string out;
  const auto column = [&](auto number_of) {
    for (const Json& event : events)
      add_number(&out, number_of(event));
  };
  add_number(&out, events.size());
  std::array<Values, kListed.size()> lists;
  for (std::size_t i = 0; i < kListed.size(); ++i) {
    lists[i] = values_of(events, kListed[i]);
    add_number(&out, lists[i].size());
    std::uint64_t last = 0;
    for (const std::uint64_t value : lists[i])
      add_number(&out, value - std::exchange(last, value));
  }
  std::int64_t last = 0;
  column([&](const Json& event) {
    const auto time = event[kTime].get<std::int64_t>();
    const std::int64_t step = time - std::exchange(last, time);
    return static_cast<std::uint64_t>(step < 0 ? -2 * step - 1 : 2 * step);
  });
  column([&](const Json& event) { return place_of(kActionNames, event[kAction]); });
  column([&](const Json& event) { return event[kDevice].get<std::uint64_t>(); });
  column([&](const Json& event) { return place_of(kMemoryNames, event[kMemory]); });
  const Places allocations = allocations_of(events);
  const auto place_in = [](const Values& list, std::uint64_t value) {
    return static_cast<std::uint64_t>(std::lower_bound(list.begin(), list.end(), value) -
                                      list.begin());
  };
  // `number`: of what differs from the allocation's.
  const auto column_beside = [&](std::size_t member, auto number) {
    for (std::size_t i = 0; i < events.size(); ++i) {
      const bool same =
          allocations[i] != kNoPlace && events[allocations[i]][member] == events[i][member];
      add_number(&out, same ? 0 : number(events[i][member]));
    }
  };
  column([&](const Json& event) {
    return place_in(lists[0], event[kAddress].get<std::uint64_t>());
  });
  for (std::size_t i = 1; i < kListed.size(); ++i)
    column_beside(kListed[i], [&](const Json& value) {
      return place_in(lists[i], value.get<std::uint64_t>()) + 1;
    });
  column_beside(kStack, [](const Json& value) {
    return static_cast<std::uint64_t>(value.get<std::int64_t>() + 2);
  });
  column([](const Json& event) {
    const std::int64_t stack =
        kFreedBy < event.size() ? event[kFreedBy].get<std::int64_t>() : -1;
    return static_cast<std::uint64_t>(stack + 1);
  });
  return out;
}

// A snapshot with no events.
Json without_events(const Json& snapshot) {
  Json out = Json::object();
  for (const auto& [key, value] : snapshot.items())
    if (key != "history") out[key] = value;
  Json& history = out["history"] = Json::object();
  for (const auto& [key, value] : snapshot.at("history").items())
    history[key] = key == "events" ? Json::array() : value;
  return out;
}

class Numbers {
 public:
  Numbers(const std::string& name, std::string_view bytes) : name_(name), bytes_(bytes) {}

  std::uint64_t next() {
    std::uint64_t out = 0;
    for (unsigned shift = 0; shift < 63; shift += 7) {
      if (bytes_.empty()) break;
      const auto byte = static_cast<unsigned char>(bytes_.front());
      bytes_.remove_prefix(1);
      out |= std::uint64_t{byte & 0x7fU} << shift;
      if (byte < 0x80) return out;
    }
    fail();
  }

  [[noreturn]] void fail() const {
    throw BadSnapshot(name_ + ": no snapshot: its events are damaged");
  }

  // Each takes a byte at least.
  std::size_t count() {
    const std::uint64_t number = next();
    if (number > bytes_.size())
      throw BadSnapshot(name_ + ": no snapshot: more events than it has room for");
    return number;
  }

  Values rising() {
    Values out(count());
    std::uint64_t last = 0;
    for (std::uint64_t& value : out)
      value = last += next();
    return out;
  }

  std::uint64_t below(std::size_t limit) {
    const std::uint64_t number = next();
    if (number >= limit) fail();
    return number;
  }

 private:
  const std::string& name_;
  std::string_view bytes_;
};

Json unpacked_events(const std::string& name, std::string_view bytes) {
  Numbers numbers(name, bytes);
  Json::array_t events(numbers.count(), Json::array());
  std::array<Values, kListed.size()> lists;
  for (Values& list : lists)
    list = numbers.rising();
  const auto column = [&](auto value) {
    for (Json& event : events)
      event.push_back(value());
  };
  std::uint64_t last = 0;  // it may wrap around, as others may have made the file
  column([&] {
    const std::uint64_t step = numbers.next();
    return last += step % 2 != 0 ? 0 - (step / 2 + 1) : step / 2;
  });
  column([&] { return kActionNames[numbers.below(std::size(kActionNames))]; });
  column([&] { return numbers.next(); });
  column([&] { return kMemoryNames[numbers.below(std::size(kMemoryNames))]; });
  column([&] { return lists[0][numbers.below(lists[0].size())]; });
  const Places allocations = allocations_of(events);
  const auto column_beside = [&](auto value) {
    for (std::size_t i = 0; i < events.size(); ++i) {
      const std::uint64_t number = numbers.next();
      const std::size_t member = events[i].size();
      if (number == 0 && allocations[i] == kNoPlace) numbers.fail();
      events[i].push_back(number == 0 ? events[allocations[i]][member] : value(number));
    }
  };
  for (std::size_t i = 1; i < kListed.size(); ++i)
    column_beside([&](std::uint64_t number) -> Json {
      if (number > lists[i].size()) numbers.fail();
      return lists[i][number - 1];
    });
  column_beside(
      [](std::uint64_t number) -> Json { return static_cast<std::int64_t>(number) - 2; });
  for (Json& event : events) {
    const auto freed_by = static_cast<std::int64_t>(numbers.next()) - 1;
    if (event[kAction] == "free") event.push_back(freed_by);
  }
  return events;
}

std::string deflated(const std::string& bytes) {
  uLongf size = compressBound(bytes.size());
  std::string out(size, '\0');
  constexpr int kLevel = 7;
  if (compress2(reinterpret_cast<Bytef*>(out.data()),
                &size,
                reinterpret_cast<const Bytef*>(bytes.data()),
                bytes.size(),
                kLevel) != Z_OK)
    throw BadSnapshot("no memory to pack a report");
  out.resize(size);
  return out;
}

struct Inflating {
  z_stream stream{};

  Inflating() { works = inflateInit(&stream) == Z_OK; }

  Inflating(const Inflating&) = delete;
  Inflating& operator=(const Inflating&) = delete;

  ~Inflating() { (void)inflateEnd(&stream); }

  bool works = false;
};

std::string inflated(const std::string& name, const std::string& bytes) {
  Inflating holder;
  z_stream& stream = holder.stream;
  std::string out;
  std::size_t given = 0;
  int result = holder.works ? Z_OK : Z_MEM_ERROR;
  while (result == Z_OK) {
    constexpr std::size_t kStep = std::size_t{1} << 22;
    const std::size_t had = out.size();
    if (had >= kLargest) throw BadSnapshot(name + ": unpacks to more than 4 GiB");
    if (stream.avail_in == 0) {
      const std::size_t part = std::min(kStep, bytes.size() - given);
      stream.next_in = reinterpret_cast<const Bytef*>(bytes.data() + given);
      stream.avail_in = static_cast<uInt>(part);
      given += part;
    }
    out.resize(had + kStep);
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + had);
    stream.avail_out = kStep;
    result = inflate(&stream, Z_NO_FLUSH);
    out.resize(out.size() - stream.avail_out);
  }
  if (result != Z_STREAM_END) throw BadSnapshot(name + ": no snapshot: its data is damaged");
  return out;
}

std::string of_base64(const std::string& name, std::string_view text) {
  std::array<int, 256> values{};
  values.fill(-1);
  for (std::size_t i = 0; i < kDigits.size(); ++i)
    values[static_cast<unsigned char>(kDigits[i])] = static_cast<int>(i);
  text = text.substr(0, text.find('='));
  std::string out;
  out.reserve(text.size() * 3 / 4);
  unsigned bits = 0;
  unsigned pending = 0;
  for (const char c : text) {
    const int value = values[static_cast<unsigned char>(c)];
    if (value < 0) throw BadSnapshot(name + ": no snapshot: its data is damaged");
    bits = bits << 6 | static_cast<unsigned>(value);
    pending += 6;
    if (pending < 8) continue;
    pending -= 8;
    out += static_cast<char>(bits >> pending);
  }
  return out;
}

}  // namespace

std::string base64(std::string_view bytes) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    unsigned three = 0;
    for (std::size_t j = i; j < i + 3; ++j)
      three = three << 8 | (j < bytes.size() ? static_cast<unsigned char>(bytes[j]) : 0U);
    for (std::size_t j = 0; j < 4; ++j)
      out += i + j > bytes.size() ? '=' : kDigits[three >> (18 - 6 * j) & 63U];
  }
  return out;
}

std::string packed_bytes(const std::string& bytes) {
  return base64(deflated(bytes));
}

std::string packed(const Json& snapshot) {
  std::string bytes =
      without_events(snapshot).dump(-1, ' ', true, Json::error_handler_t::replace);
  bytes += '\n';
  bytes += packed_events(snapshot.at("history").at("events").get_ref<const Json::array_t&>());
  return packed_bytes(bytes);
}

Json unpacked(const std::string& name, std::string_view text, const Told& progress) {
  const std::string bytes = inflated(name, of_base64(name, text));
  const std::size_t end = std::min(bytes.find('\n'), bytes.size());
  Json snapshot = parse_json(name, std::string_view(bytes).substr(0, end), progress);
  if (!snapshot.is_object() || !snapshot.contains("history") ||
      !snapshot["history"].is_object() || end == bytes.size())
    throw BadSnapshot(name + ": no snapshot: its JSON holds other things");
  snapshot["history"]["events"] =
      unpacked_events(name, std::string_view(bytes).substr(end + 1));
  return snapshot;
}

}  // namespace custash::snapshot
