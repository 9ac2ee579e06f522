// SPDX-License-Identifier: MIT
// One way to get and give back memory, as the cases see it; and the device around it. A plug-in
// (peer_*.cpp) is a shared object whose `bench_peer` gives one, so that each can be built where
// its library is found.
#pragma once

#include <cstddef>

namespace bench {

// What a block may be used by: any stream, the stream it names, or the host.
enum class Kind { Plain, Named, Pinned };

struct Peer {
  const char* name;
  Kind kind;
  void* (*allocate)(std::size_t bytes, void* stream);  // null: none to be had
  void (*release)(void* block, std::size_t bytes, void* stream);
  void (*trim)();  // gives back what is cached; null: it cannot
};

// The device that the peers of one program share.
struct Device {
  void (*enter)();               // once in each thread
  void* (*new_stream)();         // does not wait for the default stream
  void (*submit)(void* stream);  // the least work there is
  void (*work)(void* stream);    // some 20 us of it on an H200
  void (*record)(void* stream);  // an event of the thread's own
  void (*wait)();                // until all work is done
  // The first byte of a block, on that stream.
  void (*write)(void* block, void* stream);
  std::size_t (*used)();  // bytes that the driver has handed out, to any process; 0: unknown
};

extern const Device device;

// Registers every case for a peer.
void register_cases(const Peer& peer);

// Registers what is held against them: what the machine takes.
void register_control();

}  // namespace bench

// What a plug-in exports.
extern "C" __attribute__((visibility("default"))) const bench::Peer* bench_peer();
