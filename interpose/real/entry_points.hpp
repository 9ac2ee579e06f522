// SPDX-License-Identifier: MIT
// Entry: one number for each driver symbol of entry_points.def, in its order; and our wrappers,
// one function each, declared under their exported name. They are called hook_<symbol> here, so
// that cuda.h's renaming macros and its own declarations, which differ from toolkit to toolkit,
// cannot touch them. No state.
#pragma once

// cuda.h without its renaming macros (set by meson.build too, for files that include cuda.h
// before).
#ifndef __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL  // NOLINT: cuda.h's name
#endif
#include <cuda.h>
#ifdef cuMemAlloc
#error "cuda.h was included before, with its renaming macros"
#endif

#include <array>
#include <cstddef>

// A wrapper: C linkage name, seen from outside.
#define CUSTASH_HOOK(hook, name, params) \
  CUresult hook params noexcept __asm__(name) __attribute__((visibility("default")))

// For readers of entry_points.def: the forms in which a row's entry is exported, each with the
// null stream of that form. ALL_FORMS_##forms(macro, hook, …) expands `macro` once a form.
#define ALL_FORMS_One(macro, hook, ...) macro(hook, Legacy, __VA_ARGS__)  // NOLINT
#define ALL_FORMS_Ptsz(macro, hook, ...)                                  /* NOLINT */ \
  macro(hook, Legacy, __VA_ARGS__) macro(hook##_ptsz, PerThread, __VA_ARGS__)
#define ALL_FORMS_Ptds(macro, hook, ...) /* NOLINT */ \
  macro(hook, Legacy, __VA_ARGS__) macro(hook##_ptds, PerThread, __VA_ARGS__)

#define IN_PARENTHESES(...) __VA_ARGS__

namespace custash {

enum class Entry : unsigned short {
#define AS_NUMBER(hook, null, ...) hook,
#define ENTRY(symbol, forms, role, params) ALL_FORMS_##forms(AS_NUMBER, hook_##symbol, )
#include "interpose/real/entry_points.def"
#undef AS_NUMBER
  Count
};

inline constexpr std::size_t kEntryCount = static_cast<std::size_t>(Entry::Count);

inline constexpr std::array<const char*, kEntryCount> kEntryNames = {
#define NAME_AFTER_PREFIX(hook, null, ...) &#hook[sizeof("hook_") - 1],
#define ENTRY(symbol, forms, role, params) ALL_FORMS_##forms(NAME_AFTER_PREFIX, hook_##symbol, )
#include "interpose/real/entry_points.def"
#undef NAME_AFTER_PREFIX
};

#define ENTRY_One(hook, name, params) CUSTASH_HOOK(hook, name, params);
#define ENTRY_Ptsz(hook, name, params) \
  CUSTASH_HOOK(hook, name, params);    \
  CUSTASH_HOOK(hook##_ptsz, name "_ptsz", params);
#define ENTRY_Ptds(hook, name, params) \
  CUSTASH_HOOK(hook, name, params);    \
  CUSTASH_HOOK(hook##_ptds, name "_ptds", params);
#define ENTRY(symbol, forms, role, params) ENTRY_##forms(hook_##symbol, #symbol, params)
#include "interpose/real/entry_points.def"
#undef ENTRY_One
#undef ENTRY_Ptsz
#undef ENTRY_Ptds

// What a call does, for the observers of calls: which arguments say what, they know by it.
enum class Role : unsigned char {
  Other,
  // Memory
  Alloc,
  AllocPitch,
  Free,
  HostAlloc,
  HostFree,
  // Work
  Launch,
  LaunchEx,
  LaunchCooperative,
  LaunchOnDevices,
  LaunchGraph,
  HostWork,    // the host may hear of it, and it may wait for the host or for another kernel
  TellHost,    // the first alone
  WaitUnseen,  // the second alone
  // Copies. A box has two or three dimensions.
  Copy,
  CopyHostToDevice,
  CopyDeviceToHost,
  CopyDeviceToDevice,
  CopyPeer,
  CopyBox,
  CopyBoxPeer,
  CopyHostToArray,
  CopyDeviceToArray,
  CopyArrayToDevice,
  CopyArray,
  CopyBatch,
  CopyOther,
  // Memsets
  Set8,
  Set16,
  Set32,
  SetRows8,
  SetRows16,
  SetRows32,
  // Order
  WaitEvent,
  ContextWait,
  RecordEvent,
  RecordContext,
  SyncContext,
  SyncStream,
  SyncEvent,
  QueryStream,
  QueryEvent,
  // Contexts, streams, executable graphs
  EndContext,
  EndStream,
  MakeGreen,
  MakeExec,
  UpdateExec,
  EndExec,
  EnableNode,
  SetExecKernel,
  SetExecCopy,  // or a memset
  SetExecChild,
  SetExecNode
};

inline constexpr std::array<Role, kEntryCount> kRoles = {
#define ITS_ROLE(hook, null, role) Role::role,
#define ENTRY(symbol, forms, role, params) ALL_FORMS_##forms(ITS_ROLE, hook_##symbol, role)
#include "interpose/real/entry_points.def"
#undef ITS_ROLE
};

constexpr Role role_of(Entry entry) {
  return kRoles[static_cast<std::size_t>(entry)];
}

constexpr const char* name_of(Entry entry) {
  return kEntryNames[static_cast<std::size_t>(entry)];
}

constexpr bool is_between(Role role, Role first, Role last) {
  return first <= role && role <= last;
}

constexpr bool is_copy(Role role) {
  return is_between(role, Role::Copy, Role::CopyOther);
}

constexpr bool is_set(Role role) {
  return is_between(role, Role::Set8, Role::SetRows32);
}

}  // namespace custash
