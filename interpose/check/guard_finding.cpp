// SPDX-License-Identifier: MIT
#include "interpose/check/guard_finding.hpp"

#include "interpose/check/kernel_log.hpp"
#include "interpose/history/symbols.hpp"

#include <algorithm>
#include <cstdio>

namespace custash::guards {
namespace {

std::string hex(std::uint64_t number) {
  char text[32];
  (void)std::snprintf(text, sizeof text, "%#llx", static_cast<unsigned long long>(number));
  return text;
}

std::string bytes_text(Bytes bytes) {
  return std::to_string(bytes) + (bytes == 1 ? " byte" : " bytes");
}

// Empty where it is not known.
std::string distance_text(Bytes bytes) {
  return bytes == 0 ? "" : bytes_text(bytes) + " ";
}

std::string stream_text(CUstream stream) {
  if (stream == CU_STREAM_LEGACY) return "the default stream";
  if (stream == CU_STREAM_PER_THREAD) return "the thread's default stream";
  return "stream " + hex(reinterpret_cast<std::uint64_t>(stream));
}

std::vector<std::string> names_of(const Words& words) {
  Symbols symbols = symbols_here();
  std::vector<std::string> out;
  for (const Symbols::Id frame : symbols.frames_of(words))
    out.push_back(text_of(symbols.frames()[frame]));
  return out;
}

// As programs write it: cuda.h makes cuMemFree_v2 of cuMemFree.
std::string plain(std::string call) {
  for (const std::string_view ending : {"_ptsz", "_ptds", "_v2", "_v3"})
    if (call.ends_with(ending)) call.erase(call.size() - ending.size());
  return call;
}

// The runtime's function where the program called that.
std::string call_of(const GuardFinding& finding) {
  if (finding.source != Source::Call) return finding.call;
  const std::string call = symbols_here().runtime_call(finding.told_to);
  return plain(call.empty() ? finding.call : call);
}

// Up to the name of the block.
std::string where(const Suspect& suspect) {
  switch (suspect.kind) {
    case Kind::PastEnd:
      return distance_text(suspect.distance) + "past the end of ";
    case Kind::BeforeBeginning:
      return distance_text(suspect.distance) + "before the beginning of ";
    case Kind::Outside:
      return "past the end or before the beginning of ";
    case Kind::AfterFree:
      return "use after free of ";
    case Kind::SecondFree:
      return "second free of ";
    case Kind::PartFree:
      return "free " + bytes_text(suspect.distance) + " into ";
    case Kind::FreeBesideUse:
      return "free not ordered after a use of ";
    case Kind::BeforeAllocation:
      return "use not ordered after the allocation of ";
    case Kind::Unknown:
      break;
  }
  return "";
}

std::string stream_headline(Kind kind) {
  if (kind == Kind::FreeBesideUse)
    return "a block is freed while another stream may still use it";
  if (kind == Kind::BeforeAllocation)
    return "a block is used on a stream before its allocation";
  return "a block is used on a stream after its free";
}

std::string headline(const GuardFinding& finding) {
  const Kind kind = finding.suspects.empty() ? Kind::Unknown : finding.suspects.front().kind;
  switch (finding.source) {
    case Source::Fault:
      return "a kernel has faulted: error " + std::to_string(finding.error);
    case Source::Slack:
      return "memory next to a block was overwritten";
    case Source::Free:
      return kind == Kind::SecondFree ? "a double free" : "a free of an address inside a block";
    case Source::Call:
      return call_of(finding) + (kind == Kind::AfterFree ? " uses a block after its free"
                                                         : " accesses memory outside a block");
    case Source::Host:
      return "the host " + finding.call + " memory outside a block";
    case Source::Streams:
      return stream_headline(kind);
  }
  return "";
}

class Lines {
 public:
  void add(int depth, const std::string& line) {
    text_ += "custash: guard: " + std::string(2 * static_cast<std::size_t>(depth), ' ') + line +
             "\n";
  }

  void stack(const char* title, const Words& words) {
    if (words.empty()) return;
    add(2, title);
    for (const std::string& name : names_of(words))
      add(3, name);
  }

  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

std::string line_of(const Suspect& suspect) {
  const Block& block = suspect.block;
  return where(suspect) + "block " + hex(block.address) + ", " + bytes_text(block.bytes) +
         (block.memory == observe::MemoryKind::Pinned ? ", pinned" : "") + ", device " +
         std::to_string(block.device) +
         (block.stream.named ? ", " + stream_text(handle_of(block.stream)) : "") +
         (block.freed == 0 ? ", in use" : ", freed");
}

std::string line_of(const Work& work) {
  return plain(readable(work.name)) + " on " + stream_text(work.stream) +
         (work.over ? ", over" : "");
}

std::string which(std::size_t count) {
  return count == 1 ? "this block" : "one of these " + std::to_string(count) + " blocks";
}

// Empty where there is none.
std::string doubt_of(const GuardFinding& finding) {
  const std::size_t count = finding.suspects.size();
  if (finding.certain) return "";
  if (finding.page != 0)
    return "it " + finding.call + " at " + hex(finding.page) + ", or up to " +
           std::to_string(kernel_log::kPage - 1) + " bytes later; " +
           (count == 0 ? "no guarded block is known"
                       : which(count) + " may be meant, or another");
  if (count == 0) return "the address is not known; no launch in flight names a guarded block";
  return "the address is not known; it may be " + which(count) +
         ", or one that no launch names";
}

void add_suspect(const Suspect& suspect, Lines* out) {
  const Block& block = suspect.block;
  out->add(1, line_of(suspect));
  out->stack("allocated by", block.allocated_by);
  out->stack("freed by", block.freed_by);
}

// Places in the finding's own list of frames.
void json_stack(const char* name, const Words& words, Symbols* symbols, JsonWriter* out) {
  out->list(name, symbols->frames_of(words), [&](Symbols::Id each) { out->natural(each); });
}

}  // namespace

const char* name_of(Kind kind) {
  constexpr const char* kNames[] = {"past_end",
                                    "before_beginning",
                                    "outside",
                                    "after_free",
                                    "second_free",
                                    "part_free",
                                    "free_beside_use",
                                    "before_allocation",
                                    "unknown"};
  return kNames[static_cast<std::size_t>(kind)];
}

const char* name_of(Source source) {
  constexpr const char* kNames[] = {"fault", "slack", "free", "call", "streams", "host"};
  return kNames[static_cast<std::size_t>(source)];
}

std::string text_of(const GuardFinding& finding) {
  Lines out;
  out.add(0, headline(finding));
  if (const std::string doubt = doubt_of(finding); !doubt.empty()) out.add(1, doubt);
  for (const Suspect& suspect : finding.suspects)
    add_suspect(suspect, &out);
  // Streams: the stack of the free or of the use stands there already.
  if (finding.source != Source::Streams) out.stack("found in", finding.told_to);
  if (!finding.work.empty())
    out.add(1, finding.certain ? "used by, newest first" : "the last work, newest first");
  for (const Work& work : finding.work) {
    out.add(2, line_of(work));
    for (const std::string& name : names_of(work.by))
      out.add(3, name);
  }
  return out.take();
}

void write_json(const GuardFinding& finding, JsonWriter* out) {
  Symbols symbols = symbols_here();
  out->open('{');
  out->text_member("text", headline(finding));
  out->text_member("doubt", doubt_of(finding));
  out->text_member("source", name_of(finding.source));
  out->member("certain", finding.certain);
  out->member("error", finding.error);
  out->text_member("call", call_of(finding));
  out->text_member("page", finding.page == 0 ? "" : hex(finding.page));
  out->objects("suspects", finding.suspects, [&](const Suspect& suspect) {
    const Block& block = suspect.block;
    out->text_member("text", line_of(suspect));
    out->text_member("kind", name_of(suspect.kind));
    out->member("distance", suspect.distance);
    out->text_member("address", hex(block.address));
    out->member("bytes", block.bytes);
    out->text_member("memory",
                     block.memory == observe::MemoryKind::Pinned ? "pinned" : "device");
    out->member("device", block.device);
    out->text_member("stream",
                     block.stream.named
                         ? hex(reinterpret_cast<std::uint64_t>(handle_of(block.stream)))
                         : "");
    out->member("in_use", block.freed == 0);
    json_stack("allocated_by", block.allocated_by, &symbols, out);
    json_stack("freed_by", block.freed_by, &symbols, out);
  });
  json_stack("found_in", finding.told_to, &symbols, out);
  out->objects("work", finding.work, [&](const Work& work) {
    out->text_member("text", line_of(work));
    out->text_member("name", plain(readable(work.name)));
    out->text_member("stream", hex(reinterpret_cast<std::uint64_t>(work.stream)));
    out->member("over", work.over);
    json_stack("by", work.by, &symbols, out);
    const auto* const end = work.addresses.begin() + work.count;
    out->list("addresses",
              std::vector<Address>(work.addresses.begin(), end),
              [&](Address each) { out->string(hex(each)); });
  });
  out->objects(
      "frames", symbols.frames(), [&](const Frame& each) { write_members(each, out); });
  out->close('}');
}

}  // namespace custash::guards
