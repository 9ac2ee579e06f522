// SPDX-License-Identifier: MIT
// The kernel by which custash tells contents apart (allocator/sleep/digest_kernel.hpp), written
// again from its description: the tester shares no code with the tested.
#include "tests/sim/kernels.hpp"

#include <cstring>

namespace custash::sim {
namespace {

constexpr std::size_t kThreads = 256;
constexpr std::size_t kThreadKeys = 2048;  // after those of the vectors
__extension__ using Wide = unsigned __int128;

struct Piece {
  std::uint64_t address, bytes;
};

struct Digest {
  Wide sums[2];
  std::uint32_t value, kind;
};

struct Arguments {
  const Piece* pieces;
  unsigned char* digests;
  const std::uint64_t* keys;
  std::uint32_t count;
};

constexpr std::size_t kDigestBytes = 40;

Arguments arguments_of(const custash_sim_launch& launch) {
  Arguments args{};
  std::memcpy(&args.pieces, launch.args[0], sizeof args.pieces);
  std::memcpy(&args.digests, launch.args[1], sizeof args.digests);
  std::memcpy(&args.keys, launch.args[2], sizeof args.keys);
  std::memcpy(&args.count, launch.args[3], sizeof args.count);
  return args;
}

Digest digest_of(const Piece& piece, const std::uint64_t* keys) {
  const auto* const words = reinterpret_cast<const std::uint64_t*>(piece.address);
  const std::size_t vectors = piece.bytes / 16;
  const auto first = static_cast<std::uint32_t>(words[0]);
  const std::uint64_t both = first | static_cast<std::uint64_t>(first) << 32;
  Digest digest{{0, 0}, first, 2};
  for (std::size_t thread = 0; thread < kThreads; ++thread) {
    Wide sums[2] = {0, 0};
    for (std::size_t at = thread; at < vectors; at += kThreads) {
      const std::uint64_t x = words[2 * at];
      const std::uint64_t y = words[2 * at + 1];
      if (x != both || y != both) digest.kind = 1;
      const std::uint64_t* const key = keys + at / kThreads * 4;
      sums[0] += Wide{x + key[0]} * Wide{y + key[1]};
      sums[1] += Wide{x + key[2]} * Wide{y + key[3]};
    }
    const std::uint64_t* const key = keys + kThreadKeys + thread * 4;
    for (int i = 0; i < 2; ++i)
      digest.sums[i] += Wide{static_cast<std::uint64_t>(sums[i]) + key[2 * i]} *
                        Wide{static_cast<std::uint64_t>(sums[i] >> 64) + key[2 * i + 1]};
  }
  return digest;
}

void run(const custash_sim_launch* launch) {
  const Arguments args = arguments_of(*launch);
  for (std::uint32_t i = 0; i < args.count; ++i) {
    const Digest digest = digest_of(args.pieces[i], args.keys);
    std::memcpy(args.digests + i * kDigestBytes, &digest, kDigestBytes);
  }
}

// 4 TB a second.
std::uint64_t nanoseconds(const custash_sim_launch* launch) {
  const Arguments args = arguments_of(*launch);
  std::uint64_t bytes = 0;
  for (std::uint32_t i = 0; i < args.count; ++i)
    bytes += args.pieces[i].bytes;
  return 5'000 + bytes / 4'000;
}

std::size_t accesses(const custash_sim_launch* launch,
                     custash_sim_access* out,
                     std::size_t room) {
  const Arguments args = arguments_of(*launch);
  for (std::uint32_t i = 0; i < args.count && i < room; ++i)
    out[i] = {args.pieces[i].address, args.pieces[i].bytes, 0};
  return args.count;
}

constexpr std::size_t kSizes[] = {8, 8, 8, 4, 0};

}  // namespace

const custash_sim_kernel digest_kernels[] = {
    {"custash_digest", kSizes, run, nanoseconds, accesses}, {}};

}  // namespace custash::sim
