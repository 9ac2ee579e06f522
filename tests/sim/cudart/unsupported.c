/* SPDX-License-Identifier: MIT
 * Every public name of the runtime, weakly, answering cudaErrorNotSupported: where the double
 * implements a name, that definition wins. A program then loads whatever it refers to, and learns
 * of what is missing only where it calls it. C, since the names' real prototypes do not matter.
 */
int custash_cudart_unsupported(void);

#define X(name)                           \
  __attribute__((weak)) int name(void);   \
  __attribute__((weak)) int name(void) {  \
    return custash_cudart_unsupported();  \
  }
#include "tests/sim/cudart/names.def"
#undef X
