// SPDX-License-Identifier: MIT
// A snapshot's call sites as profiles that other viewers open: pprof's, in the encoding of
// protocol buffers, and folded stacks. Both have the totals of each site since history was
// switched on.
#include "interpose/history/leak_text.hpp"
#include "interpose/process/printable.hpp"
#include "tools/command/snapshot/forms.hpp"
#include "tools/output_file.hpp"

#include <algorithm>
#include <array>
#include <new>
#include <stdexcept>
#include <unordered_map>

#define ZLIB_CONST  // what it reads is const
#include <zlib.h>

namespace custash::snapshot {
namespace {

// A message of protocol buffers.
class Message {
 public:
  void number(unsigned field, std::uint64_t value) {
    varint(field << kFieldShift);
    varint(value);
  }

  void text(unsigned field, std::string_view bytes) {
    constexpr unsigned kLengthDelimited = 2;
    varint(field << kFieldShift | kLengthDelimited);
    varint(bytes.size());
    bytes_ += bytes;
  }

  void message(unsigned field, const Message& inner) { text(field, inner.bytes_); }

  [[nodiscard]] const std::string& bytes() const { return bytes_; }

 private:
  static constexpr unsigned kFieldShift = 3;

  void varint(std::uint64_t value) {
    constexpr unsigned kBits = 7;
    constexpr std::uint64_t kMore = 0x80;
    for (; value >= kMore; value >>= kBits)
      bytes_ += static_cast<char>(value | kMore);
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

struct Texts {
  Message* profile;
  std::unordered_map<std::string, std::uint64_t> known;

  // Its place in the profile's table. The first must be empty.
  std::uint64_t operator()(const std::string& text) {
    constexpr unsigned kTable = 6;
    const auto [it, is_new] = known.emplace(text, known.size());
    if (is_new) profile->text(kTable, text);
    return it->second;
  }
};

std::string memory_of(const Json& site) {
  const auto memory = site.at("memory").get<std::string>();
  const std::size_t number = memory == "device" ? 0 : memory == "pinned" ? 1 : 2;
  return leaks::where_text(number, site.at("device").get<int>());
}

// From the innermost frame; empty where the call site is unknown.
Json::array_t calls_of(const Json& snapshot, const Json& site) {
  const auto stack = site.at("stack").get<std::int64_t>();
  return stack < 0 ? Json::array_t()
                   : snapshot.at("stacks")
                         .at(static_cast<std::size_t>(stack))
                         .get_ref<const Json::array_t&>();
}

std::string function_of(const Frame& frame) {
  return frame.name.empty() ? text_of(frame) : frame.name;
}

std::uint64_t sum_of(const Json& site, const char* member) {
  return static_cast<std::uint64_t>(
      std::max<std::int64_t>(0, site.at(member).get<std::int64_t>()));
}

// A function and a location of its own for each frame: numbers from 1 on, by the frame's index.
void add_frames(const Json& snapshot, Texts* texts) {
  const auto add = [&](std::uint64_t id, const Frame& frame) {
    Message function;
    function.number(1, id);
    function.number(2, (*texts)(function_of(frame)));
    function.number(4, (*texts)(frame.file.empty() ? frame.module : frame.file));
    texts->profile->message(5, function);
    Message line;
    line.number(1, id);
    line.number(2, static_cast<std::uint64_t>(std::max(0, frame.line)));
    Message location;
    location.number(1, id);
    location.number(3, frame.offset);
    location.message(4, line);
    texts->profile->message(4, location);
  };
  std::uint64_t id = 0;
  for (const Json& frame : snapshot.at("frames"))
    add(++id, frame_of(frame));
  add(++id, {"", "", 0, "an unknown call site", "", 0});
}

// The comment in its head tells whose file it is (tools/output_file.cpp).
std::string zipped(const std::string& bytes) {
  z_stream stream{};
  gz_header head{};
  constexpr int kUnix = 3;
  head.os = kUnix;
  std::string comment(output::kProfileMark);
  head.comment = reinterpret_cast<Bytef*>(comment.data());
  constexpr int kGzip = 16 + MAX_WBITS;
  constexpr int kMemory = 8;  // zlib's default
  if (deflateInit2(
          &stream, Z_BEST_COMPRESSION, Z_DEFLATED, kGzip, kMemory, Z_DEFAULT_STRATEGY) != Z_OK)
    throw std::bad_alloc();
  deflateSetHeader(&stream, &head);
  std::string out(deflateBound(&stream, bytes.size()) + comment.size(), '\0');
  stream.next_in = reinterpret_cast<const Bytef*>(bytes.data());
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int result = deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  if (result != Z_STREAM_END) throw std::length_error("the profile is too large");
  return out;
}

}  // namespace

std::string as_pprof(const Json& snapshot) {
  constexpr std::array kTypes = {std::pair("alloc_objects", "count"),
                                 std::pair("alloc_space", "bytes"),
                                 std::pair("inuse_objects", "count"),
                                 std::pair("inuse_space", "bytes")};
  constexpr std::array kMembers = {"allocations", "allocated_bytes", "blocks", "bytes"};
  Message profile;
  Texts texts{&profile, {}};
  texts("");
  for (const auto& [type, unit] : kTypes) {
    Message value;
    value.number(1, texts(type));
    value.number(2, texts(unit));
    profile.message(1, value);
  }
  profile.number(14, texts("inuse_space"));
  profile.number(9, snapshot.at("time_us").get<std::uint64_t>() * 1000);
  add_frames(snapshot, &texts);
  const std::uint64_t unknown = snapshot.at("frames").size() + 1;
  for (const Json& site : snapshot.at("history").at("sites")) {
    Message sample;
    const Json::array_t frames = calls_of(snapshot, site);
    for (const Json& frame : frames)
      sample.number(1, frame.get<std::uint64_t>() + 1);
    if (frames.empty()) sample.number(1, unknown);
    for (const char* const member : kMembers)
      sample.number(2, sum_of(site, member));
    Message label;
    label.number(1, texts("memory"));
    label.number(2, texts(memory_of(site)));
    sample.message(3, label);
    profile.message(2, sample);
  }
  return zipped(profile.bytes());
}

std::string as_folded(const Json& snapshot) {
  std::string out;
  for (const Json& site : snapshot.at("history").at("sites")) {
    const std::uint64_t bytes = sum_of(site, "bytes");
    if (bytes == 0) continue;
    std::string line(output::kFoldedMark);
    line += memory_of(site);
    const Json::array_t frames = calls_of(snapshot, site);
    if (frames.empty()) line += ";an unknown call site";
    for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame) {
      std::string name =
          printable(function_of(frame_of(snapshot.at("frames").at(frame->get<std::size_t>()))));
      std::replace(name.begin(), name.end(), ';', ':');
      line += ";" + name;
    }
    out += line + " " + std::to_string(bytes) + "\n";
  }
  return out;
}

}  // namespace custash::snapshot
