// SPDX-License-Identifier: MIT
// Python's functions in this process (3.9 on), found by dlsym, so no header of Python is
// needed. No lock.
#pragma once

#include <dlfcn.h>

namespace custash::python {

struct Object;  // a reference is owned unless it is said to be borrowed
struct Thread;

struct Interpreter {
  int (*is_initialized)() = nullptr;
  Thread* (*current)() = nullptr;      // null: the calling thread has no interpreter's lock
  Thread* (*this_thread)() = nullptr;  // null: one that Python does not know
  Object* (*frame)() = nullptr;        // borrowed; the lock is held
  Object* (*frame_of)(Thread*) = nullptr;
  Object* (*back)(Object*) = nullptr;
  Object* (*code)(Object*) = nullptr;
  int (*line)(Object*) = nullptr;
  int (*last)(Object*) = nullptr;  // null before 3.11
  Object* (*attribute)(Object*, const char*) = nullptr;
  const char* (*text)(Object*) = nullptr;
  void (*keep)(Object*) = nullptr;
  void (*drop)(Object*) = nullptr;
  Object* (*error)() = nullptr;  // borrowed
  void (*clear_error)() = nullptr;
  int (*ensure)() = nullptr;
  Thread* (*save)() = nullptr;
  void (*restore)(Thread*) = nullptr;

  // The byte of the instruction that a frame runs, in its code; -1: not known.
  [[nodiscard]] int instruction(Object* frame) const {
    return last == nullptr ? -1 : last(frame);
  }

  template <typename Function>
  static bool find(Function* slot, const char* name) {
    *slot = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
    return *slot != nullptr;
  }

  bool find_all() {
    (void)find(&last, "PyFrame_GetLasti");
    return find(&is_initialized, "Py_IsInitialized") &&
           (find(&current, "PyThreadState_GetUnchecked") ||
            find(&current, "_PyThreadState_UncheckedGet")) &&
           find(&this_thread, "PyGILState_GetThisThreadState") &&
           find(&frame, "PyEval_GetFrame") && find(&frame_of, "PyThreadState_GetFrame") &&
           find(&back, "PyFrame_GetBack") && find(&code, "PyFrame_GetCode") &&
           find(&line, "PyFrame_GetLineNumber") && find(&attribute, "PyObject_GetAttrString") &&
           find(&text, "PyUnicode_AsUTF8") && find(&keep, "Py_IncRef") &&
           find(&drop, "Py_DecRef") && find(&error, "PyErr_Occurred") &&
           find(&clear_error, "PyErr_Clear") && find(&ensure, "PyGILState_Ensure") &&
           find(&save, "PyEval_SaveThread") && find(&restore, "PyEval_RestoreThread");
  }
};

}  // namespace custash::python
