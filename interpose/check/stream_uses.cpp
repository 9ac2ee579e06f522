// SPDX-License-Identifier: MIT
// clang-format off: first, as it includes cuda.h without the renaming macros
#include "interpose/hooks/node_params.hpp"
// clang-format on
#include "interpose/check/kernel_name.hpp"
#include "interpose/check/stream_uses.hpp"
#include "interpose/hooks/parameters.hpp"
#include "interpose/process/quietly.hpp"

namespace custash::stream_uses {
namespace {

// Called from code that is noexcept: without host memory the use goes unseen. The words of
// structures say what their places are for, so none but zero is left out.
void add(void* addresses, Address word, std::size_t place) {
  if (word == 0 || (place == 0 && !streams::may_know(word))) return;
  quietly([&] { static_cast<Addresses*>(addresses)->push_back({word, place}); });
}

Addresses known(const Addresses& named) {
  Addresses out;
  for (const streams::Named& each : named)
    add(&out, each.address, each.place);
  return out;
}

}  // namespace

// Large structures are left out: programs fill them in part and leave old addresses in the
// rest.
Use of_kernel(const void* function, void** params, void** extra) {
  constexpr std::size_t kMostWords = 32;
  Use use;
  Allocator* const core = process::running();
  if (core == nullptr) return use;
  parameters::visit_words(
      core->driver(), function, params, extra, add, &use.addresses, kMostWords);
  if (!use.addresses.empty()) use.name = kernel_name(function);
  // Then places of different kernels could not be distinguished.
  if (use.name == kUnknownKernel)
    std::erase_if(use.addresses, [](const streams::Named& each) { return each.place != 0; });
  use.host_visible = parameters::find_host_addresses(core->driver(), function, params, extra) !=
                     parameters::HostAddresses::None;
  return use;
}

// The host may see that pageable memory is written.
Use of_copy(const CUDA_MEMCPY3D& copy) {
  Use use{.name = "a copy in a graph"};
  if (copy.WidthInBytes == 0 || copy.Height == 0 || copy.Depth == 0) return use;
  use.addresses = known({{views::target(&copy)}, {views::source(&copy)}});
  Allocator* const core = process::running();
  const Address target = copy.dstMemoryType == CU_MEMORYTYPE_HOST
                             ? reinterpret_cast<Address>(copy.dstHost)
                             : views::target(&copy);
  use.host_visible = core == nullptr || (target != 0 && has_waited(*core, target));
  return use;
}

Use of_fill(const CUDA_MEMSET_NODE_PARAMS& fill) {
  Use use{.name = "a memset in a graph"};
  if (fill.width != 0 && fill.height != 0) use.addresses = known({{fill.dst}});
  return use;
}

void launched(streams::Chain chain, const void* function, void** params, void** extra) {
  const Use use = of_kernel(function, params, extra);
  streams::submitted(chain, use.name, use.addresses, streams::Naming::Parameters);
  if (use.host_visible) streams::special(chain, streams::Special::TellsHost);
}

void used(streams::Chain chain, const char* call, const Addresses& addresses) {
  streams::submitted(chain, call, known(addresses), streams::Naming::Exact);
}

bool has_waited(Allocator& core, Address target) {
  return views::to(core, target) == SubmissionKind::Visible &&
         !views::is_shared_with_host(target);
}

}  // namespace custash::stream_uses
