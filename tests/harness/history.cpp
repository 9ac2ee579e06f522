// SPDX-License-Identifier: MIT
#include "tests/harness/history.hpp"

#include <mutex>
#include <sstream>

namespace custash::harness {
namespace {

struct Entry {
  history::Action action;
  const void* memory;
  Bytes bytes;
  int device;
  cudaStream_t stream;
};

struct Book {
  std::mutex mutex;
  bool open = false;
  std::vector<Entry> entries;
};

// Never destroyed: tensors with static storage are freed at exit.
Book& book() {
  static Book* const the = new Book;
  return *the;
}

const char* name_of(history::Action action) {
  switch (action) {
    case history::Action::Allocate:
      return "alloc";
    case history::Action::Free:
      return "free";
    case history::Action::UseOnStream:
      return "record_stream";
  }
  return "?";
}

}  // namespace

void history::note(Action action, const void* memory, Bytes bytes, const Stream& stream) {
  const std::lock_guard lock(book().mutex);
  if (book().open)
    book().entries.push_back({action, memory, bytes, stream.device(), stream.get()});
}

void record_memory_history(History history) {
  const std::lock_guard lock(book().mutex);
  book().open = history == History::On;
  if (book().open) book().entries.clear();
}

std::string memory_snapshot() {
  const std::lock_guard lock(book().mutex);
  std::ostringstream out;
  out << "{\"events\": [";
  const char* between = "\n";
  for (const Entry& entry : book().entries) {
    out << between << "{\"action\": \"" << name_of(entry.action) << "\", \"address\": \""
        << entry.memory << "\", \"bytes\": " << entry.bytes << ", \"device\": " << entry.device
        << ", \"stream\": \"" << static_cast<const void*>(entry.stream) << "\"}";
    between = ",\n";
  }
  out << "\n]}\n";
  return out.str();
}

}  // namespace custash::harness
