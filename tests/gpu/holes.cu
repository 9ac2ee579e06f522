// SPDX-License-Identifier: MIT
// Memory freed under a kernel that still runs, and used again where no ordinary submission
// would wait for that kernel: by other processes and cards, on green streams, by programmatic
// launches; captures and allocations between kernels that need each other; what the host reads
// after a free. Right bare, and must be right under any allocator. Lines "info" measure and are
// never wrong. Every kernel that waits gives up after five seconds.
//
//   holes [--quick]
#include "holes_answers.cuh"
#include "holes_host.cuh"
#include "holes_launch.cuh"
#include "holes_order.cuh"

namespace gpu {

static int run(int argc, char** argv) {
  const bool quick = has_flag(argc, argv, "--quick");
  Report report;
  host_reach(report);  // in children, before this process begins with CUDA
  need_devices(1);
  HolesBed bed;
  sight(bed, report);
  green(bed, report);
  early_launches(bed, report, quick ? 20 : 200);
  captures_between(bed, report);
  memset_nodes(bed, report);
  threads(report, quick ? 500 : 20'000);
  return report.finish();
}

}  // namespace gpu

int main(int argc, char** argv) {
  return gpu::run(argc, argv);
}
