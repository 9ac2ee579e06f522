// SPDX-License-Identifier: MIT
#include "tests/property/program.hpp"

namespace custash::property {
namespace {

std::string number(std::int64_t n) {
  return std::to_string(n);
}

std::string stream_name(int stream) {
  switch (stream) {
    case kLegacyNull:
      return "NULL";
    case kLegacy:
      return "legacy";
    case kPerThread:
      return "per_thread";
    default:
      return "s" + number(stream);
  }
}

std::string call(const Command& c) {
  const std::string s = stream_name(c.stream);
  const std::string b = "b" + number(c.block);
  const std::string ctx = "ctx" + number(c.context);
  const std::string n = number(static_cast<std::int64_t>(c.bytes));
  switch (c.op) {
    case Op::CreateStream:
      return s + " = stream_create(" +
             (c.flags == 2   ? "green"
              : c.flags == 1 ? "non_blocking"
                             : "blocking") +
             ")";
    case Op::DestroyStream:
      return "stream_destroy(" + s + ")";
    case Op::EnablePeer:
      return ctx + ": enable_peer_access(ctx" + number(c.other) + ")";
    case Op::DisablePeer:
      return ctx + ": disable_peer_access(ctx" + number(c.other) + ")";
    case Op::EndThread:
      return "thread_exit()";
    case Op::CreateContext:
      return ctx + " = ctx_create()";
    case Op::DestroyContext:
      return "ctx_destroy(" + ctx + ")";
    case Op::Malloc:
      return b + " = malloc(" + n + ")";
    case Op::Free:
      return "free(" + b + ")";
    case Op::MallocAsync:
      return b + " = malloc_async(" + n + ", " + s + ")";
    case Op::FreeAsync:
      return "free_async(" + b + ", " + s + ")";
    case Op::RecordStream:
      return "record_stream(" + b + ", " + s + ")";
    case Op::CopyToHost:
      return "copy_to_host(h" + number(c.other) + ", " + b + ", " + s + ")";
    case Op::CopyFromHost:
      return "copy_from_host(" + b + ", h" + number(c.other) + ", " + s + ")";
    case Op::CopyBlock:
      return std::string(c.flags == 1 ? "copy_unified(" : "copy(") + b + ", b" +
             number(c.other) + ", " + n + ", " + s + ")";
    case Op::Memset:
      return "memset(" + b + ", " + s + ")";
    case Op::HostFunction:
      return "host_function(" + s + ")";
    case Op::HostRead:
      return "host_read(h" + number(c.other) + ")";
    case Op::EventRecord:
      return "event_record(e" + number(c.other) + ", " + s + ")";
    case Op::EventWait:
      return "stream_wait_event(" + s + ", e" + number(c.other) + ")";
    case Op::EventSync:
      return "event_synchronize(e" + number(c.other) + ")";
    case Op::StreamSync:
      return "stream_synchronize(" + s + ")";
    case Op::ContextSync:
      return "ctx_synchronize()";
    case Op::Sleep:
      return "sleep()";
    case Op::DeepTrim:
      return "deep_trim()";
    case Op::EmptyCache:
      return "empty_cache()";
    case Op::CaptureBegin:
      return "begin_capture(" + s + ", " + (c.flags == 1 ? "relaxed" : "global") + ")";
    case Op::CaptureEnd:
      return "g" + number(c.other) + " = end_capture(" + s + ")";
    case Op::StreamWait:
      return "stream_wait_stream(" + s + ", s" + number(c.other) + ")";
    case Op::Instantiate:
      return "instantiate(g" + number(c.other) + ")";
    case Op::Launch:
      return "graph_launch(g" + number(c.other) + ", " + s + ")";
    case Op::DestroyGraph:
      return "graph_destroy(g" + number(c.other) + ")";
    case Op::DestroyExec:
      return "graph_exec_destroy(g" + number(c.other) + ")";
    case Op::Share:
      return "another process opens " + b;
    case Op::Unshare:
      return "the other process closes " + b;
    case Op::Foreign:
      return "another process or a card writes " + b;
    case Op::Leave:
      return "a card is told of " + b;
    case Op::HostAlloc:
      return b + " = host_alloc(" + n + ", flags " + number(c.flags) + ")";
    case Op::HostFree:
      return "free_host(" + b + ")" + (c.other != 0 ? "  // used on another device" : "");
    case Op::HostRelease:
      return "release(" + b + ")";
    case Op::HostName:
      return "name(" + b + ", " + s + ")";
    case Op::BufferWrite:
      return "host_write(" + b + ")";
    case Op::BufferRead:
      return "host_read(" + b + ")";
    case Op::CopyIn:
      return "copy_in(" + b + ", " + s + ")";
    case Op::CopyOut:
      return "copy_out(" + b + ", " + s + ")";
    case Op::EndGraph:
      return "graph_destroy(g" + number(c.other) + ") and its executable";
    case Op::Idle:
      return "idle(" + n + " s)";
    case Op::Step:
      return "device_runs(" + n + ")";
    case Op::Kernel:
      break;
  }
  std::string text = (c.flags == 1 ? "early_kernel(" : "kernel(") + s;
  for (const Use& use : c.uses) {
    text += std::string(", ") + (use.write ? "write" : "read") + " b" + number(use.block) +
            "+" + number(static_cast<std::int64_t>(use.offset)) + ":" +
            number(static_cast<std::int64_t>(use.bytes));
  }
  if (c.needs != 0) text += ", needs flag " + number(c.needs);
  if (c.sets != 0) text += ", sets flag " + number(c.sets);
  return text + ")";
}

}  // namespace

std::string to_string(const Command& command) {
  std::string text = "thread " + number(command.thread) + " ctx" + number(command.context) +
                     "  " + call(command);
  if (command.nested != 0)
    text += "  // before its driver call " + number(command.entry) + ": the next " +
            number(command.nested);
  return text;
}

std::string to_string(const Program& program) {
  std::string text = "program seed " + std::to_string(program.seed) + ", " +
                     number(program.threads) +
                     (program.synced ? " threads in turn\n" : " threads, not synchronised\n");
  int step = 0;
  for (const Command& command : program.commands)
    text += "  " + number(step++) + ": " + to_string(command) + "\n";
  return text;
}

}  // namespace custash::property
