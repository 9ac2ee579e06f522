// SPDX-License-Identifier: MIT
#include "tools/main.hpp"

#include "tools/command/launch.hpp"
#include "tools/output_file.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>

#include <fcntl.h>
#include <unistd.h>

namespace custash {
namespace {

int fail(const std::string& message) {
  std::fprintf(stderr, "custash: %s\n", message.c_str());
  return kExitCustash;
}

}  // namespace

// The numbers of closed standard streams, so that no file of ours gets one of them: messages
// would go there. As before, reads and writes fail, and programs find the streams closed.
void fill_closed_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(stream, F_GETFD) < 0)
      (void)open("/dev/null", (stream == STDIN_FILENO ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
}

int run_main(int argc, char** argv, int (*body)(const std::vector<std::string>& words)) {
  fill_closed_streams();
  int code = 0;
  try {
    code = body(std::vector<std::string>(argv + 1, argv + argc));
  } catch (const OutputRefused& error) {
    (void)fail(error.what());
    code = 1;
  } catch (const std::exception& error) {
    code = fail(error.what());
  }
  // What was printed may still be on its way, to a full disk for one.
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  const std::string why = errno == 0 ? "" : std::string(": ") + std::strerror(errno);
  std::fprintf(stderr, "custash: standard output cannot be written%s\n", why.c_str());
  return code == 0 ? 1 : code;
}

}  // namespace custash
