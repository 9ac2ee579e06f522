// SPDX-License-Identifier: MIT
// What the doctor examines, and what it finds: what holds for every program on this machine,
// one program or process, its modules, and what the kernel loads for it. No program is run; the
// dynamic loader lists a program's libraries, /proc those of a process.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

namespace custash::doctor {

// What was found, and what to do about it; as text or JSON.
enum class Level { Ok, Note, Warning, Problem };

struct Finding {
  Level level = Level::Ok;
  std::string subject;  // "driver", "options", a path
  std::string what;
  std::string advice;  // one sentence; empty where nothing is to be done
};

using Findings = std::vector<Finding>;

bool any_problem(const Findings& findings);
std::string as_text(const Findings& findings, bool colours);
std::string as_json(const Findings& findings);

// The environment, the system (/proc and /sys), and the driver, which is opened and initialised
// in this process.
void examine_environment(Findings* findings);
void examine_system(Findings* findings);
void examine_driver(Findings* findings);

// The file of the driver that the loader finds; empty where there is none.
std::string driver_file();

// Whether the program can be preloaded, and by which hook each of its modules comes to CUDA.
// 0, or the code with which custash run would end, and why.
int examine_program(const std::string& name, std::string* why, Findings* findings);

// If there is none, or it is another user's, the finding says so.
void examine_process(pid_t process, Findings* findings);

// A file that a program or a process has loaded.
struct Module {
  std::string path;  // as it is called
  std::string file;  // where it can be read
};

// Linked: into one of the modules. Without dlsym: that one does not show custash's dlsym, so
// that others' look-ups pass by.
enum class Form { None, Preloaded, Linked, LinkedWithoutDlsym };

// A module that is custash, or holds it, gets a finding.
Form form_of(const std::vector<Module>& modules, Findings* findings);

// A finding for each module that comes to CUDA; false where there is none. `driver`: this
// machine's, empty where it is not known.
bool examine_modules(const std::vector<Module>& modules,
                     Form form,
                     const std::string& driver,
                     Findings* findings);

// What a module takes from others that the known differences of docs/semantics.md may concern.
// `file`: its bytes.
void examine_risks(const std::string& path, std::string_view file, Findings* findings);

// What the kernel loads for a command: a script's interpreter, and theirs.
struct Loaded {
  std::string path;  // of the program that the loader gets
  int code = 0;      // not 0: it cannot be run, and custash run would end with this
  std::string why;
  bool known = true;  // false: a shell script or a shim, which decides by itself what it starts
};

// `name` as a shell would find it. Each script on the way gets a finding.
Loaded loaded_for(const std::string& name, Findings* findings);

}  // namespace custash::doctor
