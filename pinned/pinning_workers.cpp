// SPDX-License-Identifier: MIT
#include "pinned/pinning_workers.hpp"

#include <algorithm>

namespace custash {

void PinningWorkers::add(PinnedPiece& piece) {
  const Bytes step = align_up(16_MiB, host_pages::huge());
  const std::size_t before = stripes_.size();
  const Address end = piece.range.end();
  pieces_.push_back(&piece);
  for (Address at = piece.range.base; at < end; at += step)
    stripes_.push_back({&piece, at, std::min(at + step, end)});
  piece.state.store(PinnedPiece::State::Mapped);
  piece.there.store(true);
  piece.untouched.store(stripes_.size() - before);
  piece.end = stripes_.size();
}

void PinningWorkers::start(unsigned threads) {
  Bytes bytes = 0;
  for (const PinnedPiece* piece : pieces_)
    bytes += piece->range.size;
  helpers_ = start_helpers(touch_threads(bytes, threads) - 1, [this] {
    for (std::size_t i = 0; (i = next_.fetch_add(1)) < stripes_.size();)
      touch(stripes_[i]);
  });
}

void PinningWorkers::touch(const Stripe& stripe) {
  PinnedPiece& piece = *stripe.piece;
  if (!touch_(stripe.begin, stripe.end)) piece.there.store(false);
  if (piece.untouched.fetch_sub(1) != 1) return;
  piece.state.store(done_(piece));
  piece.state.notify_all();
}

PinnedPiece::State PinningWorkers::wait(PinnedPiece& piece) {
  for (;;) {
    const PinnedPiece::State now = piece.state.load();
    if (now != PinnedPiece::State::Mapped) return now;
    if (piece.end == 0) {
      piece.there.store(touch_(piece.range.base, piece.range.end()));
      piece.state.store(done_(piece));
      continue;
    }
    std::size_t next = next_.load();
    if (next >= piece.end)
      piece.state.wait(now);
    else if (next_.compare_exchange_weak(next, next + 1))
      touch(stripes_[next]);
  }
}

void PinningWorkers::stop() {
  next_.store(stripes_.size());
  for (std::thread& helper : helpers_)
    helper.join();
  for (PinnedPiece* piece : pieces_)
    piece->end = 0;
  helpers_.clear();
  pieces_.clear();
  stripes_.clear();
  next_.store(0);
}

}  // namespace custash
