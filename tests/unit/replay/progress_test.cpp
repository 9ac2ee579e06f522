// SPDX-License-Identifier: MIT
// The line of progress: it fits its width, and tells what is left once that is known.
#include "tools/progress.hpp"

#include "tests/catch.hpp"

namespace custash {

TEST_CASE("progress is told in percent, and with the time left", "[progress]") {
  CHECK(progress_line("app.trace", 0, 200, 0, 80) == "app.trace   0 %");
  CHECK(progress_line("app.trace", 199, 200, 0.5, 80) == "app.trace  99 %");
  CHECK(progress_line("app.trace", 50, 200, 2, 80) == "app.trace  25 %, 6 s left");
  CHECK(progress_line("app.trace", 1, 200, 2, 80) == "app.trace   0 %");
  CHECK(progress_line("app.trace", 200, 200, 9, 80) == "app.trace 100 %");
  CHECK(progress_line("app.trace", 7, 0, 9, 80) == "app.trace 100 %");
}

TEST_CASE("a line of progress fits its width, and the end of a long name stays", "[progress]") {
  const std::string path = "/traces/of/a/long/way/to/an/app.trace";
  CHECK(progress_line(path, 50, 200, 2, 28) == "...app.trace  25 %, 6 s left");
  for (std::size_t width = 0; width < 60; ++width)
    CHECK(progress_line(path, 50, 200, 2, width).size() <= width);
}

}  // namespace custash
