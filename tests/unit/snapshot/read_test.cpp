// SPDX-License-Identifier: MIT
// Snapshots from files: what is read, what is refused, and that nothing in a file does harm.
#include "tools/command/snapshot/read.hpp"

#include "tests/catch.hpp"
#include "tools/command/snapshot/forms.hpp"
#include "tools/command/snapshot/packed.hpp"
#include "tools/command/snapshot/sites.hpp"

#include <cstdlib>
#include <random>

namespace custash::snapshot {
namespace {

using namespace std::string_literals;

Json good() {
  return Json::parse(
      R"({"format": "custash snapshot 1", "version": 100, "pid": 7, "program": "app",
    "time_us": 5000, "host_stats": {},
    "devices": [{"device": 0, "stats": {"allocated_bytes.all.current": 512, "allocated_bytes.all.peak": 512,
      "reserved_bytes.all.current": 2048, "reserved_bytes.all.peak": 2048, "requested_bytes.all.current": 500,
      "allocation.all.allocated": 2, "num_device_alloc": 1, "num_device_free": 0, "num_ooms": 0,
      "custash.free_bytes": 1536, "custash.largest_free_block": 1536, "custash.limbo_bytes": 0,
      "custash.fragmentation": 0, "custash.num_stalls_avoided": 1},
      "segments": [{"address": 4096, "size": 2048, "pool": "small_pool", "made_of": "pages", "stream": 0,
        "pages": [2048], "blocks": [[4096, 512, 500, "used", 0], [4608, 1536, 0, "free", -1]]}]}],
    "history": {"on": true, "depth": 4, "since_us": 1, "events_seen": 2, "events_lost": 0, "stacks_lost": 0,
      "tracked": [{"bytes": 500, "peak_bytes": 500, "lifetimes_up_to_ns": {"1024": 1}}],
      "sites": [{"stack": 0, "device": 0, "memory": "device", "caller": "app", "blocks": 1, "bytes": 500,
        "peak_bytes": 500, "at_peak_bytes": 500, "allocations": 2, "allocated_bytes": 700, "growing": false}],
      "events": [[10, "alloc", 0, "device", 4608, 200, 0, 0], [11, "free", 0, "device", 4608, 200, 0, 0]]},
    "frames": [{"module": "/bin/app", "offset": 16, "name": "train", "file": "", "line": 0}],
    "stacks": [[0]]})");
}

std::string complaint(std::string_view bytes) {
  try {
    (void)parse_snapshot("s", bytes);
  } catch (const BadSnapshot& bad) {
    return bad.what();
  }
  return {};
}

// PyTorch's, as it pickles them.
std::string text(const std::string& what) {
  return "\x8c"s + static_cast<char>(what.size()) + what;
}

std::string number(std::uint64_t value) {
  std::string out = "\x8a\x08"s;
  for (int i = 0; i < 8; ++i)
    out += static_cast<char>(value >> (8 * i));
  return out;
}

std::string member(const std::string& key, std::uint64_t value) {
  return text(key) + number(value);
}

std::string frames(const std::string& function) {
  return text("frames") + "](}(" + text("filename") + text("train.py") + member("line", 3) +
         text("name") + text(function) + "ue";
}

std::string entry(const std::string& action,
                  std::uint64_t address,
                  std::uint64_t size,
                  std::uint64_t time,
                  const std::string& function) {
  return "}("s + text("action") + text(action) + member("addr", address) +
         member("size", size) + member("stream", 0) + member("time_us", time) +
         frames(function) + "u";
}

std::string block(std::uint64_t size, const std::string& state, const std::string& function) {
  return "}("s + member("size", size) + member("requested_size", size) + text("state") +
         text(state) + frames(function) + "u";
}

const std::string kTorch =
    "\x80\x04}("s + text("segments") + "](}(" + member("device", 0) + member("address", 4096) +
    member("stream", 0) + text("segment_type") + text("large") + text("is_expandable") +
    "\x88" + text("blocks") + "](" + block(1024, "active_allocated", "layer") +
    block(512, "active_pending_free", "loss") + block(2048, "inactive", "none") + "eue" +
    text("device_traces") + "](](" + entry("segment_map", 4096, 3584, 1, "layer") +
    entry("alloc", 4096, 1024, 2, "layer") + entry("alloc", 5120, 2000, 3, "loss") +
    entry("free_requested", 5120, 2000, 9, "free") +
    entry("free_completed", 5120, 2000, 9, "free") +
    entry("free_requested", 7000, 300, 10, "free") + "eeu.";

// Whatever the bytes are: a complaint, or a snapshot that everything can be done with.
void do_all_with(const std::string& bytes) {
  try {
    const Json snapshot = parse_snapshot("s", bytes);
    check_snapshot("s", snapshot);
    (void)leaks_text(snapshot, "allocated", 5);
    (void)as_text(changes(good(), snapshot), 5);
    for (const Form form : {Form::Json, Form::Pickle, Form::Trace})
      (void)text_of(snapshot, form);
    // Packed and read again it is the same, but for a free that does not tell its stack.
    (void)parse_snapshot("s", text_of(snapshot, Form::Html));
    (void)as_json(changes(snapshot, good()));
  } catch (const BadSnapshot& bad) {
    CHECK(std::string(bad.what()).substr(0, 1) == "s");
  }
}

unsigned seed() {
  const char* const given = std::getenv("CUSTASH_TEST_SEED");
  return given == nullptr ? 20 : static_cast<unsigned>(std::strtoul(given, nullptr, 10));
}

std::string mutated(std::string bytes, std::mt19937& random) {
  const auto pick = [&](std::size_t below) { return below == 0 ? 0 : random() % below; };
  for (std::size_t times = 1 + pick(4); times > 0 && !bytes.empty(); --times) {
    const std::size_t at = pick(bytes.size());
    switch (random() % 5) {
      case 0:
        bytes[at] = static_cast<char>(random());
        break;
      case 1:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << (random() % 8)));
        break;
      case 2:
        bytes.resize(at);
        break;
      case 3:
        bytes.erase(at, 1 + pick(9));
        break;
      default:
        bytes.insert(at, bytes.substr(pick(bytes.size()), 1 + pick(30)));
    }
  }
  return bytes;
}

}  // namespace

TEST_CASE("a snapshot is read from its JSON and from a report") {
  CHECK(parse_snapshot("s", good().dump()) == good());
  const std::string page = "<!DOCTYPE html>\n<script type=\"application/json\" id=\"data\">" +
                           good().dump() + "</script>";
  CHECK(parse_snapshot("s", page) == good());
  CHECK(complaint("<html></html>") == "s: a page, but no report of custash");
}

TEST_CASE("the library writes JSON under no other ending") {
  for (const char* path :
       {"x.html", "a.b/x.html", "x.pickle", "x.pkl", "x.trace.json", "x.perfetto"}) {
    CHECK(json_path(path) == std::string(path) + ".json");
    CHECK(form_of_ending(json_path(path)) == Form::Json);
    CHECK(rendered_path(json_path(path)) == path);
  }
  CHECK(json_path("x.json") == "x.json");
  for (const char* path :
       {"x.json", ".json", "x.html", "x.txt.json", "x.trace.json", "x.json.json"})
    CHECK(rendered_path(path).empty());
  for (const char* path : {"", "x", "x.txt", "html", ".html", "x.html.gz"})
    CHECK_FALSE(form_of_ending(path));
}

TEST_CASE("a packed report holds the same snapshot") {
  Json full = good();
  auto& events = full["history"]["events"];
  events = Json::array();
  // Far apart, back in time, each word, the largest numbers, no stack.
  events.push_back({1'700'000'000'000'000, "alloc", 0, "device", kMost, kMost, 0, 0});
  events.push_back({5, "free", 65535, "pinned", 4096, 0, kMost, -1, 0});
  events.push_back({kMost, "free", 1, "other", 1, 127, 128, 0, -1});
  for (const char* word : {"segment_alloc", "segment_free", "segment_map", "segment_unmap"})
    events.push_back({6, word, 0, "device", 4096, 16384, 1, -1});
  events.push_back({7, "oom", 0, "device", 0, 1, 2, 0});
  CHECK(parse_snapshot("s", text_of(full, Form::Html)) == full);
  CHECK(parse_snapshot("s", text_of(good(), Form::Html)).at("frames") == good().at("frames"));
  full["history"]["events"] = Json::array();
  CHECK(parse_snapshot("s", text_of(full, Form::Html)) == full);
  const NamedSnapshot one{"a.json", &full};
  CHECK(complaint(page_of(one, one)) == "s: a report of two files; name one of those");
  // Nothing of the snapshot stands in the page as it is.
  full["program"] = "</script><b>";
  CHECK(text_of(full, Form::Html).find("<b>") == std::string::npos);
}

TEST_CASE("damaged packed reports are refused") {
  const std::string page = text_of(good(), Form::Html);
  const std::size_t data = page.find('>', page.find(kPackedBegin)) + 1;
  const std::size_t end = page.find("</script>", data);
  const auto with = [&](const std::string& text) {
    return complaint(page.substr(0, data) + text + page.substr(end));
  };
  const std::string whole = page.substr(data, end - data);
  CHECK(with(whole).empty());
  CHECK(with("") == "s: no snapshot: its data is damaged");
  CHECK(with("&") == "s: no snapshot: its data is damaged");
  CHECK(with(whole.substr(0, whole.size() / 2)) == "s: no snapshot: its data is damaged");
  std::mt19937 random(seed());
  INFO("seed " << seed() << " (CUSTASH_TEST_SEED)");
  for (int round = 0; round < 300; ++round)
    do_all_with(page.substr(0, data) + mutated(whole, random) + page.substr(end));
  // Damage behind the checksum, too.
  const std::string columns("\x02\x01\x05\x01\x05\x01\x00", 7);
  for (int round = 0; round < 3000; ++round) {
    Json head = good();
    head["history"]["events"] = Json::array();
    do_all_with(
        page.substr(0, data) +
        packed_bytes(head.dump() + "\n" + mutated(columns + std::string(18, '\0'), random)) +
        page.substr(end));
  }
}

TEST_CASE("PyTorch's snapshot becomes ours") {
  const Json snapshot = parse_snapshot("s", kTorch);
  const Json& segment = snapshot.at("devices")[0].at("segments")[0];
  CHECK(segment.at("size") == 3584);
  CHECK(segment.at("made_of") == "pages");
  CHECK(segment.at("blocks")[1][3] == "limbo");
  const Json& stats = snapshot.at("devices")[0].at("stats");
  CHECK(stats.at("allocated_bytes.all.current") == 1024);
  CHECK(stats.at("reserved_bytes.all.peak") == 3584);
  CHECK(stats.at("allocation.all.allocated") == 2);
  // Before the events: one block of 300. At the peak: it, 1024 and 2000.
  const Json& history = snapshot.at("history");
  CHECK(history.at("tracked")[0].at("peak_bytes") == 3324);
  CHECK(history.at("tracked")[0].at("bytes") == 1024);
  CHECK(history.at("events").size() == 5);
  std::int64_t at_peak = 0;
  for (const Json& site : history.at("sites"))
    at_peak += site.at("at_peak_bytes").get<std::int64_t>();
  CHECK(at_peak == 3324);
  const auto live = live_sites(snapshot);
  REQUIRE(live.size() == 1);
  CHECK(live.begin()->first == "  on device 0\n    layer (train.py:3)\n");
  CHECK(live.begin()->second.bytes == 1024);
}

TEST_CASE("what is missing or points at nothing is named") {
  const auto with = [](const char* pointer, const Json& value) {
    Json changed = good();
    changed[Json::json_pointer(pointer)] = value;
    return complaint(changed.dump());
  };
  CHECK(with("/format", "other") == "s: no snapshot of custash or PyTorch");
  CHECK(with("/frames", 3) == "s: snapshot.frames: not a list");
  CHECK(with("/stacks/0/0", 1) == "s: stacks: not a whole number in its range");
  CHECK(with("/devices/0/segments/0/blocks/0/4", 1) ==
        "s: segments.blocks: not a whole number in its range");
  CHECK(with("/devices/0/segments/0/blocks/1/0", 5000) ==
        "s: segments.blocks: not a whole number in its range");
  CHECK(with("/devices/0/segments/0/size", 4096) ==
        "s: segments.blocks: they do not fill their segment");
  CHECK(with("/history/events/0/1", "boom") == "s: history.events: an unknown word");
  CHECK(with("/history/sites/0/bytes", 1.5) ==
        "s: history.sites.bytes: not a whole number in its range");
  CHECK(with("/history/sites/0/growing", "no") ==
        "s: history.sites.growing: neither true nor false");
  Json lacking = good();
  lacking["devices"][0]["stats"].erase("num_ooms");
  CHECK(complaint(lacking.dump()) == "s: stats.num_ooms: missing");
  CHECK(complaint(std::string(100'000, '[')) == "s: no snapshot: too deep");
  CHECK(complaint("") != "");
}

TEST_CASE("a pickle that would run code or claims the impossible is refused") {
  CHECK(complaint("\x80\x04"
                  "cos\nsystem\n(U\x04true\x85R.") != "");
  CHECK(complaint("\x80\x04}.") == "s: a pickle, but no memory snapshot of PyTorch");
  std::string large = kTorch;
  const std::string size = member("size", 1024);
  large.replace(large.find(size), size.size(), member("size", std::uint64_t{1} << 50));
  CHECK(complaint(large) == "s: size: larger than any device");
  // One list of a hundred thousand blocks in a thousand segments: a small file, a large claim.
  const std::string one = "}("s + member("size", 512) + "u";
  std::string blocks = one + "\x94";
  for (int i = 0; i < 100'000; ++i)
    blocks += "h\x00"s;
  std::string bomb =
      "\x80\x04}("s + text("segments") + "](}(" + text("blocks") + "](" + blocks + "eu\x94";
  for (int i = 0; i < 1000; ++i)
    bomb += "h\x01"s;
  CHECK(complaint(bomb + "eu.") == "s: too many blocks and events");
}

TEST_CASE("mutated snapshots are read or refused") {
  std::mt19937 random(seed());
  INFO("seed " << seed() << " (CUSTASH_TEST_SEED)");
  const std::string json = good().dump();
  for (int round = 0; round < 1500; ++round) {
    do_all_with(mutated(json, random));
    do_all_with(mutated(kTorch, random));
  }
}

TEST_CASE("snapshots with values of other kinds are read or refused") {
  std::mt19937 random(seed());
  INFO("seed " << seed() << " (CUSTASH_TEST_SEED)");
  const Json flat = good().flatten();
  std::vector<std::string> places;
  for (const auto& [place, value] : flat.items())
    places.push_back(place);
  const Json kOthers[] = {nullptr,
                          true,
                          -1,
                          0,
                          1,
                          1.5,
                          "x",
                          Json::array(),
                          Json::object(),
                          std::int64_t{1} << 53,
                          -(std::int64_t{1} << 53),
                          ~std::uint64_t{0},
                          1e300};
  for (int round = 0; round < 1500; ++round) {
    Json changed = good();
    for (int times = 0; times < 2; ++times) {
      std::string place = places[random() % places.size()];
      if (random() % 3 == 0) place.resize(place.rfind('/'));  // a whole list or object
      if (place.empty()) continue;
      try {
        changed[Json::json_pointer(place)] = kOthers[random() % std::size(kOthers)];
      } catch (const Json::exception&) {
        // What was changed before has taken the place away.
      }
    }
    do_all_with(changed.dump());
  }
}

TEST_CASE("a difference is told by call site, the largest first") {
  Json after = good();
  after["history"]["sites"][0]["bytes"] = 800;
  after["history"]["sites"][0]["blocks"] = 2;
  after["frames"].push_back(
      {{"module", ""}, {"offset", 0}, {"name", "f"}, {"file", "a.py"}, {"line", 9}});
  after["stacks"].push_back({1});
  Json site = good()["history"]["sites"][0];
  site["stack"] = 1;
  site["bytes"] = 5000;
  after["history"]["sites"].push_back(site);
  const auto found = changes(good(), after);
  REQUIRE(found.size() == 2);
  CHECK(found[0].after.bytes == 5000);
  CHECK(found[1].after.bytes - found[1].before.bytes == 300);
  const std::string text = as_text(found, 1);
  CHECK(text.find("+5.18 KiB (+5300 bytes) at 2 call sites") == 0);
  CHECK(text.find("f (a.py:9)") != std::string::npos);
  CHECK(text.find("and 1 more call site (") != std::string::npos);
  CHECK(changes(good(), good()).empty());
}

}  // namespace custash::snapshot
