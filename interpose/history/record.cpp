// SPDX-License-Identifier: MIT
#include "interpose/history/record.hpp"

#include "allocator/base/thread.hpp"
#include "interpose/process/live_page.hpp"
#include "interpose/process/ranked_mutex.hpp"

#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <unordered_map>

#include <pthread.h>

namespace custash::record {

namespace {

struct Block {
  std::uint64_t id = 0;
  Bytes bytes = 0;
  MemoryKind memory = MemoryKind::Device;
};

struct Recorder {
  RecordFile file;
  std::string path;
  void (*say)(const std::string& line) = nullptr;
  Nanoseconds begin = 0;
  std::uint64_t next_id = 1;
  std::unordered_map<Address, Block> live;
  std::unordered_map<std::uint64_t, unsigned> streams;  // small numbers for handles
};

constinit RankedMutex mutex{HookRank::Record};
alignas(Recorder) unsigned char storage[sizeof(Recorder)];
constinit Recorder* recorder = nullptr;
// Order: none.
constinit std::atomic<bool> is_on{false};
constinit std::atomic<unsigned> threads{0};
constinit thread_local unsigned own_thread = 0;  // its number plus one
// The program's malloc may use CUDA, and the recorder uses malloc.
constinit thread_local bool inside = false;

void end() noexcept {
  is_on.store(false);
  observe::end(observe::Watcher::Record);
}

unsigned thread_number() {
  if (own_thread == 0) own_thread = ++threads;
  return own_thread - 1;
}

// Every name of the default stream is 0; each thread's per-thread default stream has its own
// number.
unsigned number_of(Recorder& r, const Stream& stream) {
  const bool default_handle = stream.handle == nullptr;
  if (stream.handle == CU_STREAM_LEGACY ||
      (default_handle && stream.null == NullStream::Legacy))
    return 0;
  auto key = reinterpret_cast<std::uint64_t>(stream.handle);
  constexpr std::uint64_t kNoHandle = std::uint64_t{1} << 63;
  if (default_handle || stream.handle == CU_STREAM_PER_THREAD)
    key = kNoHandle + thread_number();
  return r.streams.try_emplace(key, static_cast<unsigned>(r.streams.size() + 1)).first->second;
}

bool write_line(Recorder& r, char op, std::uint64_t id, Bytes bytes, const Stream& stream) {
  char line[128];
  char where[16] = "-";
  if (stream.named) std::snprintf(where, sizeof where, "%u", number_of(r, stream));
  const int length = std::snprintf(line,
                                   sizeof line,
                                   "%" PRIu64 " %u %c %" PRIu64 " %" PRIu64 " %s\n",
                                   static_cast<Nanoseconds>(live::monotonic_now()) - r.begin,
                                   thread_number(),
                                   op,
                                   id,
                                   bytes,
                                   where);
  return length > 0 && r.file.append({line, static_cast<std::size_t>(length)});
}

bool write_free(Recorder& r,
                std::unordered_map<Address, Block>::iterator it,
                const Stream& stream) {
  const Block block = it->second;
  r.live.erase(it);
  return write_line(
      r, block.memory == MemoryKind::Device ? 'f' : 'g', block.id, block.bytes, stream);
}

// Calls `body(recorder)` under the lock. If it returns false, recording ends; returns the
// error, or 0.
template <typename Body>
int record_under_lock(Body body) {
  const RankedLock guard(mutex);
  if (!is_on || body(*recorder)) return 0;
  end();
  recorder->file.close();
  return recorder->file.error();
}

template <typename Body>
void with_recorder(Body body) noexcept {
  if (inside) return;
  inside = true;
  try {
    if (const int error = record_under_lock(body); error != 0)
      recorder->say("custash: record:" + recorder->path + ": " + std::strerror(error) +
                    "; later calls are not recorded");
  } catch (...) {
    end();  // no memory: what is written so far stands
  }
  inside = false;
}

observe::Token before(const observe::Call& call) {
  if (!call.frees()) return 0;
  with_recorder([&](Recorder& r) {
    const auto it = r.live.find(call.address);
    return it == r.live.end() || it->second.memory != call.memory ||
           write_free(r, it, call.stream);
  });
  return 0;
}

void after(const observe::Call& call, CUresult result, observe::Token) {
  if (!call.allocated(result)) return;
  with_recorder([&](Recorder& r) {
    // The free of the older block was not seen, for instance because its context was destroyed.
    const auto old = r.live.find(call.address);
    if (old != r.live.end() && !write_free(r, old, {})) return false;
    const std::uint64_t id = r.next_id++;
    r.live[call.address] = {id, call.bytes, call.memory};
    const char op = call.memory == MemoryKind::Device ? 'a' : 'h';
    return write_line(r, op, id, call.bytes, call.stream);
  });
}

constexpr observe::Observer kObserver{.before = before, .after = after};

}  // namespace

bool start(const std::string& path, void (*say)(const std::string& line), std::string* why) {
  const RankedLock guard(mutex);
  recorder = new (storage) Recorder;
  recorder->path = path;
  recorder->say = say;
  recorder->begin = static_cast<Nanoseconds>(live::monotonic_now());
  if (!recorder->file.open(path, why)) return false;
  // A child must not write the parent's file. At exit the file is cut to the length of its
  // text.
  const auto forget = [] { end(); };
  const auto stop = [] {
    const CancellationOff off;
    with_recorder([](Recorder&) { return false; });
  };
  if (pthread_atfork(nullptr, nullptr, forget) != 0 || std::atexit(stop) != 0) {
    *why = "no room for exit and fork handlers";
    return false;
  }
  is_on.store(true);
  observe::begin(observe::Watcher::Record, &kObserver);
  return true;
}

}  // namespace custash::record
