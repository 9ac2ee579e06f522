// SPDX-License-Identifier: MIT
// Files of text: here alone the library and the command make and replace whole files. Text is
// written to a temporary name and moved, so readers see the old file or the complete new one. A
// file that custash did not write is never replaced unasked. Libc only; no state; throws only
// where memory runs out.
#pragma once

#include "interpose/process/output_kind.hpp"

#include <string>
#include <string_view>

#include <sys/types.h>

namespace custash::output {

// A mark before the ending: "x.oom.html".
std::string with_mark(const std::string& path, const std::string& mark);

// A new link that names `to`: false, with errno (EEXIST), if the name is taken.
bool link_to(const char* to, const char* path);

// A random name in the folder of `path`, made of its name: NAME.RANDOM.part.
std::string name_beside(const std::string& path);

enum class Replace { Own, Any };  // Own: files of the same kind, and empty ones

// Recognises a file's kind by its first bytes.
using Recognise = Kind (*)(std::string_view beginning);

// Why no file of this kind may be at `path`; empty where one may. A link is not followed.
std::string objection(const std::string& path,
                      Kind kind,
                      Replace replace,
                      Recognise recognise = kind_of);

// Moves a finished file to a name that is free: false, with errno (EEXIST), where it is taken.
bool move_to_free(const std::string& from, const std::string& to);

// Moves a finished file to `to` where objection() is empty. False, with the reason; `from` then
// stays.
bool move(const std::string& from,
          const std::string& to,
          Kind kind,
          Replace replace,
          std::string* why,
          Recognise recognise = kind_of);

enum class Readers { User, All };

// A new file with this text under a random name beside `path`; empty, with the reason, if it
// fails.
std::string write_beside(const std::string& path,
                         std::string_view text,
                         std::string* why,
                         Readers readers = Readers::User);

// write_beside() and move_to_free(), where no user chose the name, so that it may neither
// replace a file nor follow a link. If it is taken, the process's number is added before the
// ending; `path` receives the name.
bool write_beside_others(std::string* path,
                         std::string_view text,
                         pid_t process,
                         std::string* why);

// write_beside() and move(). On failure nothing is left behind and the old file is whole.
bool write(const std::string& path,
           std::string_view text,
           Kind kind,
           Replace replace,
           std::string* why,
           Recognise recognise = kind_of);

}  // namespace custash::output
