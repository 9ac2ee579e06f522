// SPDX-License-Identifier: MIT
// Pinned memory: the questions of tests/process/pinned_answers.hpp, a case each.
#include "tests/conformance/cases.hpp"

#undef SAY
#include "tests/process/pinned_answers.hpp"

namespace conformance {

CASE(pinned_runtime_codes) {
  answers::say_runtime_codes();
}

CASE(pinned_driver_codes) {
  SAY(cudaFree(nullptr));
  answers::say_driver_codes();
}

CASE(pinned_flags) {
  SAY(cudaFree(nullptr));
  answers::say_flags();
}

CASE(pinned_registration) {
  answers::say_registration();
}

CASE(pinned_questions) {
  answers::say_questions();
}

CASE(pinned_contents) {
  answers::say_contents();
}

}  // namespace conformance
