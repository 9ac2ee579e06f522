/* SPDX-License-Identifier: MIT
 * The public names of the runtime that the double does not implement: they answer
 * cudaErrorNotSupported. A program then loads whatever it refers to, and learns of what is
 * missing only where it calls it. C, since the names' real prototypes do not matter here.
 */
int custash_cudart_unsupported(void);

#define X(name)                          \
  int name(void);                        \
  int name(void) {                       \
    return custash_cudart_unsupported(); \
  }
#include "tests/sim/cudart/unsupported.def"
#undef X
