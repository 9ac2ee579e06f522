// SPDX-License-Identifier: MIT
// clang-format off: first, as it includes cuda.h without the renaming macros
#include "interpose/hooks/hook.hpp"
// clang-format on
#include "interpose/hooks/kernel_name.hpp"
#include "interpose/hooks/parameters.hpp"
#include "interpose/hooks/stream_uses.hpp"
#include "interpose/process/quietly.hpp"

namespace custash::stream_uses {
namespace {

// Called from code that is noexcept: without host memory the use goes unseen. The words of
// structures say what their places are for, so none but zero is left out.
void add(void* addresses, Address word, std::size_t place) {
  if (word == 0 || (place == 0 && !streams::may_know(word))) return;
  quietly([&] { static_cast<Addresses*>(addresses)->push_back({word, place}); });
}

}  // namespace

// Large structures are left out: programs fill them in part and leave old addresses in the
// rest.
void launched(streams::Chain chain, const void* function, void** params, void** extra) {
  constexpr std::size_t kMostWords = 32;
  Allocator* const core = process::core();
  if (core == nullptr) return;
  Addresses addresses;
  parameters::visit_words(core->driver(), function, params, extra, add, &addresses, kMostWords);
  const char* const name = addresses.empty() ? "" : kernel_name(function);
  // Then places of different kernels could not be told apart.
  if (name == kUnknownKernel)
    std::erase_if(addresses, [](const streams::Named& each) { return each.place != 0; });
  streams::submitted(chain, name, addresses, false);
  if (parameters::look(core->driver(), function, params, extra) !=
      parameters::HostAddresses::None)
    streams::special(chain, streams::Special::TellsHost);
}

void used(streams::Chain chain, const char* call, const Addresses& addresses) {
  Addresses known;
  for (const streams::Named& each : addresses)
    add(&known, each.address, each.place);
  streams::submitted(chain, call, known, true);
}

bool has_waited(Allocator& core, Address target) {
  return views::to(core, target) == SubmissionKind::Visible &&
         !views::is_shared_with_host(target);
}

}  // namespace custash::stream_uses
