// SPDX-License-Identifier: MIT
#include "interpose/build_id.hpp"
#include "interpose/check/core_table.hpp"
#include "interpose/process/descriptors.hpp"
#include "interpose/process/sleep_library.hpp"
#include "pinned/sleep_store.hpp"

namespace custash {
namespace {

void begin(Allocator& core) {
  static const SleepStore* const made = [&] {
    auto* const store = new SleepStore(core.driver(), core.config());  // never destroyed
    FileCalls calls;
    calls.keep = [](int fd) { return descriptors().keep(fd); };
    calls.drop = [](int fd) { descriptors().drop(fd); };
    store->set_calls(calls);
    Sleep(core).set_store(*store);
    DeepTrim(core).serve_requests();
    return store;
  }();
  (void)made;
}

constexpr SleepLibrary kLibrary{
    .build = kBuild,
    .begin = begin,
    .sleep = [](Allocator& core,
                const SleepRequest& request) { return Sleep(core).go(request); },
    .deep_trim = [](Allocator& core,
                    const SleepRequest& request) { return DeepTrim(core).go(request); },
};

}  // namespace

const SleepLibrary* open_sleep(const CoreTable* core) {
  core_table = core;
  prepare_unwinder();
  return &kLibrary;
}

}  // namespace custash
