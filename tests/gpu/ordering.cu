// SPDX-License-Identifier: MIT
// Is memory that was freed with work in flight safe with its next owner? An ordinary CUDA
// program: the driver passes all of it, because its cudaFree waits for the device. An allocator
// that gives memory back at once passes only if it orders the next owner's work. Prints how
// often the same bytes came back, how many rounds could have failed (`biting`), and how long
// cudaFree took behind running work.
//
//   ordering [--quick] [GROUP...]
#include "ordering_async.cuh"
#include "ordering_host.cuh"
#include "ordering_kinds.cuh"
#include "ordering_recuts.cuh"
#include "ordering_streams.cuh"
#include "ordering_threads.cuh"

namespace gpu {

struct Group {
  const char* name;
  void (*run)(Bed& bed);
};

// Small sizes first: the more free memory there is, the longer it takes to meet the same bytes.
constexpr Group kGroups[] = {
    {"late_writer_small", late_writer_small},
    {"stream_created_later", stream_created_later},
    {"default_stream", default_stream},
    {"per_thread_stream", per_thread_stream},
    {"three_stream_steal", three_stream_steal},
    {"library_stream", library_stream},
    {"late_kinds", late_kinds},
    {"second_kinds", second_kinds},
    {"late_reader", late_reader},
    {"stream_ordered", stream_ordered},
    {"threads", threads},
    {"late_writer_large", late_writer_large},
    {"recuts", recuts},
    {"host_reads", host_reads},
    {"host_function", host_function},
    {"mapped_memory", mapped_memory},
};

static bool wanted(int argc, char** argv, const char* group) {
  bool any = false;
  for (int i = 1; i < argc; ++i)
    any |= argv[i][0] != '-';
  return !any || has_flag(argc, argv, group);
}

static int run(int argc, char** argv) {
  need_devices(1);
  Bed bed(has_flag(argc, argv, "--quick"));
  for (const Group& group : kGroups) {
    if (wanted(argc, argv, group.name)) group.run(bed);
  }
  std::printf(
      "info total rounds=%d same=%d biting=%d wrong=%llu free_median_us=%.2f "
      "free_worst_us=%.2f\n",
      bed.all.rounds,
      bed.all.same,
      bed.all.biting,
      bed.all.wrong,
      median(bed.all.free_us),
      worst(bed.all.free_us));
  return bed.report.finish();
}

}  // namespace gpu

int main(int argc, char** argv) {
  return gpu::run(argc, argv);
}
