// SPDX-License-Identifier: MIT
#include "interpose/history/ledger_book.hpp"

#include "interpose/observe/observe.hpp"
#include "interpose/process/file_name.hpp"

#include <pthread.h>
#include <unistd.h>

namespace custash::ledger {
namespace {

constinit RankedMutex making{HookRank::MakeLedger};
// Order: released after the book is made. So is `magic`, for the reader of the file.
constinit std::atomic<Book*> made{nullptr};

void show_areas(Book& book) {
  Header& head = *book.head;
  book.events.begin(&book.memory, &head.events);
  book.sites.begin(&book.memory, &head.sites);
  book.live.begin(&book.memory, &head.live);
  book.segments.begin(&book.memory, &head.segments);
  book.words.begin(&book.memory, &head.words);
  book.ends.begin(&book.memory, &head.ends);
  book.modules.begin(&book.memory, &head.modules);
  book.codes.begin(&book.memory, &head.codes);
  book.texts.begin(&book.memory, &head.texts);
  book.counters.begin(&book.memory, &head.counters);
  book.held.begin(&book.memory, &head.held);
  book.pages.begin(&book.memory, &head.pages);
  book.pieces.begin(&book.memory, &head.pieces);
}

// A forked child must not write into the parent's ledger, whose lock may also be held.
void forget_in_child() {
  observe::end(observe::Watcher::History);
  observe::end(observe::Watcher::Counters);
}

}  // namespace

TextPlace Book::add_text(std::string_view text) {
  const auto at = static_cast<std::uint32_t>(texts.size());
  texts.append(text.data(), text.size());
  return {at, static_cast<std::uint32_t>(text.size())};
}

Book* book() noexcept {
  return made.load(std::memory_order_acquire);
}

Book& make_book(const char* path) {
  const RankedLock guard(making);
  if (Book* const there = book()) return *there;
  auto* const fresh = new Book;
  if (path != nullptr) (void)fresh->memory.share(path);
  const Storage::Region region = fresh->memory.get(sizeof(Header));
  fresh->head = static_cast<Header*>(region.at);
  Header& head = *fresh->head;
  fresh->memory.set_partial(&head.partial);
  show_areas(*fresh);
  head.version = CUSTASH_VERSION;
  head.size = sizeof head;
  head.pid = getpid();
  head.rank = file_name::own_rank().value_or(-1);
  head.started = clock_now();
  std::atomic_ref(head.magic).store(kMagic, std::memory_order_release);
  pthread_atfork(nullptr, nullptr, forget_in_child);
  made.store(fresh, std::memory_order_release);
  return *fresh;
}

}  // namespace custash::ledger
