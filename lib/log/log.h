// Lines for people (or, as JSON, for collectors): UTC time, level, program, member, text. One line
// per call, whatever the text holds: it is made printable, and cut to 1 KiB. Never log a secret.
//
//   2026-11-21T08:32:00.123Z info muster-worker w1 step 118 recomputed 2 of 6 lanes
// or, with LogOptions::json,
//   {"time":"2026-11-21T…","level":"info","program":"muster-worker","member":"w1","text":"step …"}
//
// All functions are thread-safe. Before StartLog, lines of level info and above go to stderr.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"

namespace muster {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// "debug", "info", "warning", "error"; anything else is kInvalidArgument.
absl::StatusOr<LogLevel> ParseLogLevel(absl::string_view text);

struct LogOptions {
  std::string program;  // "muster-worker"
  std::string member;   // "w1"; empty: left out
  LogLevel level = LogLevel::kInfo;
  std::string file;  // appended to; empty: stderr
  bool json = false;
};

// Once, early in main; a later call replaces the settings (tests). Each line is written out before
// its call returns. kInvalidArgument: the file cannot be opened, with the reason.
absl::Status StartLog(const LogOptions& options);

void WriteLog(LogLevel level, absl::string_view text);
bool LogsAt(LogLevel level);

template <class... Args>
void LogDebug(const absl::FormatSpec<Args...>& format, const Args&... args) {
  if (LogsAt(LogLevel::kDebug)) WriteLog(LogLevel::kDebug, absl::StrFormat(format, args...));
}
template <class... Args>
void LogInfo(const absl::FormatSpec<Args...>& format, const Args&... args) {
  if (LogsAt(LogLevel::kInfo)) WriteLog(LogLevel::kInfo, absl::StrFormat(format, args...));
}
template <class... Args>
void LogWarning(const absl::FormatSpec<Args...>& format, const Args&... args) {
  WriteLog(LogLevel::kWarning, absl::StrFormat(format, args...));
}
template <class... Args>
void LogError(const absl::FormatSpec<Args...>& format, const Args&... args) {
  WriteLog(LogLevel::kError, absl::StrFormat(format, args...));
}

}  // namespace muster
