// SPDX-License-Identifier: MIT
#include "tests/bench/trace.hpp"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <unordered_map>

namespace bench {

Trace read_trace(const std::string& path) {
  Trace trace;
  trace.name = path.substr(path.rfind('/') + 1);
  trace.name = trace.name.substr(0, trace.name.find('.'));
  std::unordered_map<std::size_t, Event> alive;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    std::string time, thread, op, stream;
    std::size_t id = 0, bytes = 0;
    if (!(fields >> time >> thread >> op >> id >> bytes >> stream)) continue;
    if (op == "a") {
      const std::size_t number = stream == "-" ? 0 : std::stoul(stream);
      trace.streams = std::max(trace.streams, number + 1);
      alive[id] = {trace.blocks++, bytes, number};
      trace.events.push_back(alive[id]);
    } else if (op == "f" && alive.count(id) != 0) {
      trace.events.push_back(alive[id]);
      alive.erase(id);
    }
  }
  for (const auto& [id, event] : alive)
    trace.events.push_back(event);
  return trace;
}

}  // namespace bench
