// SPDX-License-Identifier: MIT
// The kernel of Digests, as PTX: the driver compiles it for its device. One block of threads
// goes through a piece at a time, and each thread through every 256th vector of 16 bytes.
// tests/sim/ digest.cpp says the same in C++.
#pragma once

namespace custash {

inline constexpr char kDigestKernel[] = R"(
.version 6.3
.target sm_52
.address_size 64

// Of each piece: two sums of 128 bits, and whether it holds one value of 32 bits throughout.
.visible .entry custash_digest(.param .u64 pieces, .param .u64 digests, .param .u64 keys,
                               .param .u32 count)
.maxntid 256, 1, 1
{
  .shared .align 16 .b8 key[24576];  // 512 x 4 words for a thread's vectors, 256 x 4 for threads
  .shared .align 16 .b8 sum[8192];   // of each thread: a lo, a hi, b lo, b hi
  .reg .pred p, q;
  .reg .b32 t, i, n, number, last, step, value, bits;
  .reg .b64 at, from, to, base, both, x, y, k0, k1, k2, k3, differ, end;
  .reg .b64 a0, a1, b0, b1, u, v;

  mov.u32 t, %tid.x;
  ld.param.u64 from, [keys];
  mul.wide.u32 at, t, 8;
  add.u64 from, from, at;
  mov.u64 to, key;
  add.u64 to, to, at;
  add.u64 end, to, 24576;
load:
  ld.global.u64 x, [from];
  st.shared.u64 [to], x;
  add.u64 from, from, 2048;
  add.u64 to, to, 2048;
  setp.lt.u64 p, to, end;
  @p bra load;

  mov.u32 number, %ctaid.x;
  mov.u32 step, %nctaid.x;
  ld.param.u32 last, [count];
piece:
  setp.ge.u32 p, number, last;
  @p bra done;
  bar.sync 0;
  ld.param.u64 from, [pieces];
  mul.wide.u32 at, number, 16;
  add.u64 from, from, at;
  ld.global.v2.u64 {base, end}, [from];
  add.u64 end, end, base;
  ld.global.u32 value, [base];
  mov.b64 both, {value, value};
  mul.wide.u32 at, t, 16;
  add.u64 from, base, at;
  mov.u64 to, key;
  mov.u64 a0, 0;
  mov.u64 a1, 0;
  mov.u64 b0, 0;
  mov.u64 b1, 0;
  mov.u64 differ, 0;
  setp.ge.u64 p, from, end;
  @p bra fold;
  ld.global.v2.u64 {u, v}, [from];
vector:
  mov.u64 x, u;
  mov.u64 y, v;
  add.u64 from, from, 4096;
  setp.lt.u64 p, from, end;
  @p ld.global.v2.u64 {u, v}, [from];
  ld.shared.v2.u64 {k0, k1}, [to];
  ld.shared.v2.u64 {k2, k3}, [to + 16];
  add.u64 to, to, 32;
  add.u64 k0, k0, x;
  add.u64 k1, k1, y;
  mad.lo.cc.u64 a0, k0, k1, a0;
  madc.hi.u64 a1, k0, k1, a1;
  add.u64 k2, k2, x;
  add.u64 k3, k3, y;
  mad.lo.cc.u64 b0, k2, k3, b0;
  madc.hi.u64 b1, k2, k3, b1;
  xor.b64 x, x, both;
  xor.b64 y, y, both;
  or.b64 differ, differ, x;
  or.b64 differ, differ, y;
  @p bra vector;

fold:
  mul.wide.u32 at, t, 32;
  mov.u64 to, key;
  add.u64 to, to, at;
  ld.shared.v2.u64 {k0, k1}, [to + 16384];
  ld.shared.v2.u64 {k2, k3}, [to + 16400];
  add.u64 k0, k0, a0;
  add.u64 k1, k1, a1;
  mul.lo.u64 a0, k0, k1;
  mul.hi.u64 a1, k0, k1;
  add.u64 k2, k2, b0;
  add.u64 k3, k3, b1;
  mul.lo.u64 b0, k2, k3;
  mul.hi.u64 b1, k2, k3;
  mov.u64 to, sum;
  add.u64 to, to, at;
  st.shared.v2.u64 [to], {a0, a1};
  st.shared.v2.u64 [to + 16], {b0, b1};
  setp.ne.u64 p, differ, 0;
  bar.red.or.pred q, 0, p;
  and.b32 bits, t, 31;
  setp.ne.u32 p, bits, 0;
  @p bra next;
  setp.gt.u32 p, t, 32;
  @p bra next;

  // Thread 0 adds up the first sums of all, thread 32 the second.
  shr.u32 bits, t, 1;
  cvt.u64.u32 at, bits;
  mov.u64 from, sum;
  add.u64 from, from, at;
  add.u64 end, from, 8192;
  mov.u64 a0, 0;
  mov.u64 a1, 0;
total:
  ld.shared.v2.u64 {x, y}, [from];
  add.cc.u64 a0, a0, x;
  addc.u64 a1, a1, y;
  add.u64 from, from, 32;
  setp.lt.u64 p, from, end;
  @p bra total;
  ld.param.u64 to, [digests];
  mul.wide.u32 u, number, 40;
  add.u64 to, to, u;
  selp.u32 bits, 1, 2, q;
  setp.eq.u32 p, t, 0;
  @p st.global.u32 [to + 32], value;
  @p st.global.u32 [to + 36], bits;
  add.u64 to, to, at;
  st.global.u64 [to], a0;
  st.global.u64 [to + 8], a1;
next:
  add.u32 number, number, step;
  bra piece;
done:
  ret;
}
)";

}  // namespace custash
