// SPDX-License-Identifier: MIT
// Ledgers that are damaged or hostile: nothing in them is believed that does not fit.
#include "tests/catch.hpp"
#include "tools/command/run/folder.hpp"

#include <cstdio>
#include <cstdlib>
#include <string>

#include <fcntl.h>
#include <unistd.h>

namespace {

using custash::Piece;
using custash::PieceState;
using custash::ledger::Copy;

// One device, whose only segment is one piece of the state given.
Copy with_state(int state) {
  Copy copy;
  copy.head.ended = 1;
  copy.counters.resize(1);
  copy.counters[0].devices = 1;
  custash::ledger::HeldRow row{};
  row.base = 0x10000000;
  row.size = 4096;
  row.pieces_end = 1;
  copy.held.push_back(row);
  Piece piece{0x10000000, 4096, 4096, PieceState::Used};
  piece.state = static_cast<PieceState>(state);
  copy.pieces.push_back(piece);
  return copy;
}

}  // namespace

TEST_CASE("a block's state that does not exist is none", "[ledger]") {
  for (const int state : {0, 1, 2, 3, 200, 255}) {
    const auto snapshot = custash::run::snapshot_of(with_state(state), "");
    REQUIRE(snapshot.devices.size() == 1);
    REQUIRE(snapshot.devices[0].blocks.size() == 1);
    const PieceState told = snapshot.devices[0].blocks[0][0].piece.state;
    REQUIRE(static_cast<int>(told) == (state > 2 ? 0 : state));
  }
}

TEST_CASE("a file that claims more rows than it holds is not read", "[ledger]") {
  std::string path = "/tmp/custash-ledger-test-XXXXXX";
  const int file = mkstemp(path.data());
  REQUIRE(file >= 0);
  custash::ledger::Header head{};
  head.magic = custash::ledger::kMagic;
  head.size = sizeof head;
  head.version = CUSTASH_VERSION;
  constexpr std::uint64_t kRows = std::uint64_t{1} << 36U;
  for (auto* area : {&head.events,
                     &head.sites,
                     &head.live,
                     &head.segments,
                     &head.words,
                     &head.ends,
                     &head.modules,
                     &head.codes,
                     &head.texts,
                     &head.counters,
                     &head.held,
                     &head.pages,
                     &head.pieces})
    area->row = 1;
  head.events.row = sizeof(custash::history::Event);
  head.events.count = kRows;
  for (auto& place : head.events.places)
    place = {sizeof head, kRows};
  REQUIRE(write(file, &head, sizeof head) == static_cast<ssize_t>(sizeof head));
  REQUIRE(ftruncate(file, std::int64_t{1} << 42U) == 0);  // a hole
  REQUIRE_FALSE(custash::run::read_ledger(path).has_value());
  close(file);
  unlink(path.c_str());
}
