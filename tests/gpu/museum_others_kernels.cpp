// SPDX-License-Identifier: MIT
// The ranges that the kernels of museum_streams.cu and museum_others.cu touch, for the
// simulated driver. A kernel of museum_others.cu also fills what it
// writes, so that damage behind a block can be found there. museum_streams.cu needs no data.
#include "tests/gpu/museum_layouts.hpp"
#include "tests/sim/kernel_ranges.hpp"

#include <algorithm>

namespace {

using namespace custash_kernels;

template <int kArgument>
uint64_t duration(const Launch* launch) {
  return uint64_t{argument<unsigned>(launch, kArgument)} * 1000000;
}

size_t fill_touches(const Launch* launch, Access* out, size_t room) {
  return give({writes(argument<int*>(launch, 0), 0, argument<long>(launch, 1))}, out, room);
}

size_t slow_sum_touches(const Launch* launch, Access* out, size_t room) {
  return give({reads(argument<const int*>(launch, 0), 0, argument<long>(launch, 1)),
               writes(argument<int*>(launch, 3), 0, 1)},
              out,
              room);
}

size_t cast_touches(const Launch* launch, Access* out, size_t room) {
  const auto column = argument<museum::Column>(launch, 0);
  return give({reads(column.values, 0, column.rows),
               writes(argument<long long*>(launch, 1), 0, column.rows)},
              out,
              room);
}

size_t decode_touches(const Launch* launch, Access* out, size_t room) {
  const auto strings = argument<museum::Strings>(launch, 0);
  return give({reads(strings.offsets, 0, strings.rows),
               reads(strings.chars, 0, strings.rows),
               writes(argument<int*>(launch, 2), 0, 1)},
              out,
              room);
}

size_t attend_touches(const Launch* launch, Access* out, size_t room) {
  const auto query = argument<museum::Query>(launch, 0);
  return give({writes(query.q, 0, query.tokens),
               reads(query.topk, 0, query.tokens),
               writes(argument<int*>(launch, 2), 0, query.tokens)},
              out,
              room);
}

size_t scale_touches(const Launch* launch, Access* out, size_t room) {
  const long count = static_cast<long>(launch->grid[0]) * launch->block[0];
  return give({writes(argument<float*>(launch, 0), 0, count)}, out, room);
}

// From the first row to the last: the gaps between rows are told, too.
size_t transpose_touches(const Launch* launch, Access* out, size_t room) {
  const long width = argument<int>(launch, 2);
  const long height = argument<int>(launch, 3);
  const long stride = argument<int>(launch, 4);
  return give({reads(argument<const int*>(launch, 0), 0, width * height),
               writes(argument<int*>(launch, 1), 0, (width - 1) * stride + height)},
              out,
              room);
}

size_t shift_touches(const Launch* launch, Access* out, size_t room) {
  const long first = argument<long>(launch, 1);
  const long count = argument<long>(launch, 2);
  return give({writes(argument<int*>(launch, 0), first - 1, count - 1)}, out, room);
}

// The programs push more records than there are slots.
size_t push_touches(const Launch* launch, Access* out, size_t room) {
  const auto ring = argument<museum::Ring>(launch, 0);
  return give(
      {writes(ring.base, 0, static_cast<long>(ring.slots) * ring.slot_bytes)}, out, room);
}

size_t sum_touches(const Launch* launch, Access* out, size_t room) {
  return give({reads(argument<const int*>(launch, 0),
                     argument<long>(launch, 1),
                     argument<long>(launch, 2) + 1),
               writes(argument<int*>(launch, 3), 0, 1)},
              out,
              room);
}

size_t step_touches(const Launch* launch, Access* out, size_t room) {
  const auto step = argument<museum::Step>(launch, 0);
  return give({reads(step.now, 0, step.cells), writes(step.next, 0, step.cells)}, out, room);
}

size_t fill4_touches(const Launch* launch, Access* out, size_t room) {
  return give({writes(argument<int*>(launch, 0), 0, argument<long>(launch, 1) * 4)}, out, room);
}

size_t shade_touches(const Launch* launch, Access* out, size_t room) {
  const auto mesh = argument<museum::Mesh>(launch, 0);
  return give({reads(mesh.positions, 0, mesh.vertices),
               reads(mesh.normals, 0, mesh.vertices),
               writes(argument<float*>(launch, 1), 0, mesh.vertices)},
              out,
              room);
}

size_t insert_touches(const Launch* launch, Access* out, size_t room) {
  const auto table = argument<museum::Table>(launch, 0);
  const long slot = museum::hash(argument<unsigned>(launch, 1)) & table.mask;
  return give({writes(table.slots, slot, slot + 1)}, out, room);
}

size_t put_touches(const Launch* launch, Access* out, size_t room) {
  const int count = argument<int>(launch, 1);
  const auto key = argument<unsigned>(launch, 2);
  const long slot = argument<int>(launch, 3) != 0 ? museum::signed_slot(key, count)
                                                  : museum::unsigned_slot(key, count);
  return give({writes(argument<int*>(launch, 0), slot, slot + 1)}, out, room);
}

size_t scatter_touches(const Launch* launch, Access* out, size_t room) {
  float* const array = argument<float*>(launch, 0);
  const long count = argument<int>(launch, 1);
  if (count <= 32768) return give({writes(array, 0, count)}, out, room);
  return give({writes(array, -32768, count - 65536), writes(array, 0, 32768)}, out, room);
}

// Asked at the launch. By then the copy has put the values there.
size_t histogram_touches(const Launch* launch, Access* out, size_t room) {
  const auto* const values = argument<const float*>(launch, 0);
  const long count = argument<long>(launch, 1);
  const int bins = argument<int>(launch, 3);
  const auto ends = std::minmax_element(values, values + count);
  return give({reads(values, 0, count),
               writes(argument<int*>(launch, 2),
                      museum::bin_of(*ends.first, bins),
                      museum::bin_of(*ends.second, bins) + 1)},
              out,
              room);
}

}  // namespace

using namespace museum;

extern "C" const custash_sim_kernel custash_sim_kernels[] = {
    {"streams_spin", kArgs<unsigned>, nullptr, duration<0>, nullptr},
    {"streams_fill", kArgs<int*, long, int>, nullptr, nullptr, fill_touches},
    {"streams_sum", kArgs<int*, long, unsigned, int*>, nullptr, duration<2>, slow_sum_touches},
    {"streams_cast", kArgs<Column, long long*, unsigned>, nullptr, duration<2>, cast_touches},
    {"streams_decode", kArgs<Strings, unsigned, int*>, nullptr, duration<1>, decode_touches},
    {"streams_attend", kArgs<Query, unsigned, int*>, nullptr, duration<1>, attend_touches},
    writer<scale_touches, float*, float>("others_scale"),
    writer<transpose_touches, int*, int*, int, int, int>("others_transpose"),
    writer<shift_touches, int*, long, long>("others_shift"),
    writer<push_touches, Ring, int, int>("others_push"),
    writer<sum_touches, int*, long, long, int*>("others_sum"),
    writer<step_touches, Step>("others_step"),
    writer<fill4_touches, int*, long>("others_fill4"),
    writer<shade_touches, Mesh, float*>("others_shade"),
    writer<insert_touches, Table, unsigned>("others_insert"),
    writer<put_touches, int*, int, unsigned, int>("others_put"),
    writer<scatter_touches, float*, int>("others_scatter"),
    writer<histogram_touches, float*, long, int*, int>("others_histogram"),
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};
