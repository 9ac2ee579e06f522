// SPDX-License-Identifier: MIT
#include "allocator/base/log.hpp"

#include "allocator/base/thread.hpp"

#include <atomic>
#include <memory>
#include <mutex>

#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

namespace custash {
namespace {

// Order: a thread that reads the threshold with acquire finds the sink that was stored before
// it.
std::atomic<LogLevel> threshold{LogLevel::Off};
std::atomic<spdlog::logger*> sink{nullptr};  // never destroyed: lines may be logged during exit

spdlog::level::level_enum spdlog_level(LogLevel level) {
  switch (level) {
    case LogLevel::Error:
      return spdlog::level::err;
    case LogLevel::Warn:
      return spdlog::level::warn;
    case LogLevel::Info:
      return spdlog::level::info;
    case LogLevel::Debug:
      return spdlog::level::debug;
    case LogLevel::Off:
      break;
  }
  return spdlog::level::off;
}

// spdlog's own sinks throw and print when a line cannot be written.
class LineSink : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit LineSink(WriteLine* write) : write_(write) {}

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    write_({line.data(), line.size()});
  }

  void flush_() override {}

 private:
  WriteLine* write_;
};

}  // namespace

void open_log(LogLevel level, WriteLine* write) {
  if (level == LogLevel::Off) return;
  auto* logger = new spdlog::logger("custash", std::make_shared<LineSink>(write));
  logger->set_error_handler([](const std::string&) {});  // the usual one prints
  logger->set_pattern("custash %Y-%m-%dT%H:%M:%S.%e pid=%P tid=%t %l %v");
  logger->set_level(spdlog_level(level));
  sink.store(logger, std::memory_order_relaxed);
  threshold.store(level, std::memory_order_release);
}

void log(LogLevel level, std::string_view line) {
  if (level == LogLevel::Off || level > threshold.load(std::memory_order_acquire)) return;
  const CancellationOff off;
  sink.load(std::memory_order_relaxed)->log(spdlog_level(level), line);
}

}  // namespace custash
