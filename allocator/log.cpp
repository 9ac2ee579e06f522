// SPDX-License-Identifier: MIT
#include "allocator/log.hpp"

#include <atomic>
#include <memory>

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

namespace custash {
namespace {

std::atomic<LogLevel> threshold{LogLevel::Off};
std::atomic<spdlog::logger*> sink{nullptr};  // never destroyed: lines may come during exit

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

std::shared_ptr<spdlog::sinks::sink> make_sink(const std::string& file, std::string* why) {
  if (!file.empty()) {
    try {
      return std::make_shared<spdlog::sinks::basic_file_sink_mt>(file);
    } catch (const spdlog::spdlog_ex& error) {
      *why = error.what();  // a wrong path must not stop the program
    }
  }
  return std::make_shared<spdlog::sinks::stderr_sink_mt>();
}

}  // namespace

void open_log(LogLevel level, const std::string& file) {
  if (level == LogLevel::Off) return;
  std::string why;
  auto* logger = new spdlog::logger("custash", make_sink(file, &why));
  logger->set_pattern("custash %Y-%m-%dT%H:%M:%S.%e pid=%P tid=%t %l %v");
  logger->set_level(spdlog_level(level));
  logger->flush_on(spdlog::level::info);
  sink.store(logger, std::memory_order_release);
  threshold.store(level, std::memory_order_release);
  if (!why.empty()) log(LogLevel::Error, "event=log_file_refused reason=\"" + why + "\"");
}

bool log_enabled(LogLevel level) {
  return level != LogLevel::Off && level <= threshold.load(std::memory_order_relaxed);
}

void log(LogLevel level, std::string_view line) {
  if (!log_enabled(level)) return;
  sink.load(std::memory_order_acquire)->log(spdlog_level(level), line);
}

}  // namespace custash
