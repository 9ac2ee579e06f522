// SPDX-License-Identifier: MIT
#include "tests/property/pinned_program.hpp"

#include "tests/property/listing.hpp"
#include "tests/property/program.hpp"

namespace custash::property {
namespace {

std::string stream_name(int stream) {
  if (stream == kLegacyNull) return "NULL";
  if (stream == kLegacy) return "legacy";
  return stream == kPerThread ? "per_thread" : "s" + std::to_string(stream);
}

std::string call(const PinCommand& c) {
  const std::string s = stream_name(c.stream);
  const std::string b = "h" + std::to_string(c.buffer);
  const std::string other = std::to_string(c.other);
  const std::string flags = std::to_string(c.flags);
  const std::string n = std::to_string(c.bytes);
  switch (c.op) {
    case PinOp::CreateStream:
      return s + " = stream_create(" + flags + ")";
    case PinOp::DestroyStream:
      return "stream_destroy(" + s + ")";
    case PinOp::CreateContext:
      return "ctx_create()";
    case PinOp::EndContext:
      return "ctx_end()";
    case PinOp::Alloc:
      return b + " = host_alloc(" + n + ", flags " + flags + ")";
    case PinOp::Free:
      return "free_host(" + b + ")" + (c.other != 0 ? "  // used on another device" : "");
    case PinOp::Release:
      return "release(" + b + ")";
    case PinOp::Name:
      return "name(" + b + ", " + s + ")";
    case PinOp::HostWrite:
      return "host_write(" + b + ")";
    case PinOp::HostRead:
      return "host_read(" + b + ")";
    case PinOp::CopyIn:
      return "copy_in(" + b + ", " + s + ")";
    case PinOp::CopyOut:
      return "copy_out(" + b + ", " + s + ")";
    case PinOp::EventRecord:
      return "event_record(e" + other + ", " + s + ")";
    case PinOp::EventWait:
      return "stream_wait_event(" + s + ", e" + other + ")";
    case PinOp::StreamSync:
      return "stream_synchronize(" + s + ")";
    case PinOp::ContextSync:
      return "ctx_synchronize()";
    case PinOp::Empty:
      return "empty()";
    case PinOp::CaptureBegin:
      return "begin_capture(" + s + (c.flags == 1 ? ", relaxed)" : ", global)");
    case PinOp::CaptureEnd:
      return "g" + other + " = end_capture(" + s + ")";
    case PinOp::Launch:
      return "graph_launch(g" + other + ", " + s + ")";
    case PinOp::EndGraph:
      return "graph_destroy(g" + other + ")";
    case PinOp::Idle:
      return "idle(" + n + " s)";
    case PinOp::Step:
      return "device_runs(" + n + ")";
    case PinOp::Kernel:
      break;
  }
  std::string text = "kernel(" + s;
  if (c.buffer >= 0) text += (c.flags == 1 ? ", write " : ", read ") + b;
  if (c.needs != 0) text += ", needs flag " + std::to_string(c.needs);
  if (c.sets != 0) text += ", sets flag " + std::to_string(c.sets);
  return text + ")";
}

}  // namespace

std::string to_string(const PinCommand& command) {
  return line_of(command, call(command));
}

std::string to_string(const PinProgram& program) {
  return listing(program);
}

}  // namespace custash::property
