// SPDX-License-Identifier: MIT
// For readers of entry_points.def: the forms in which a row's entry is exported, each with the
// null stream of that form. ALL_FORMS_##forms(macro, hook, …) expands `macro` once a form.
#pragma once

#define IN_PARENTHESES(...) __VA_ARGS__

#define ALL_FORMS_One(macro, hook, ...) macro(hook, Legacy, __VA_ARGS__)  // NOLINT
#define ALL_FORMS_Ptsz(macro, hook, ...)                                  /* NOLINT */ \
  macro(hook, Legacy, __VA_ARGS__) macro(hook##_ptsz, PerThread, __VA_ARGS__)
#define ALL_FORMS_Ptds(macro, hook, ...) /* NOLINT */ \
  macro(hook, Legacy, __VA_ARGS__) macro(hook##_ptds, PerThread, __VA_ARGS__)
