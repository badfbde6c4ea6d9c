#include "lib/log/log.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <array>
#include <atomic>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "lib/base/mutex.h"
#include "lib/base/printable.h"

namespace muster {
namespace {

constexpr std::array<const char*, 4> kLevelNames = {"debug", "info", "warning", "error"};

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug: return spdlog::level::debug;
    case LogLevel::kInfo: return spdlog::level::info;
    case LogLevel::kWarning: return spdlog::level::warn;
    case LogLevel::kError: return spdlog::level::err;
  }
  return spdlog::level::err;
}

// What others say reaches the log, and many read it on a terminal.
std::string Safe(absl::string_view text) { return Cut(Printable(text)); }

// A JSON string with its quotes.
std::string JsonString(absl::string_view text) {
  std::string out = "\"";
  for (const char c : Cut(PrintableLines(text))) {
    if (c == '"' || c == '\\')
      out += {'\\', c};
    else if (c == '\n' || c == '\t')
      out += c == '\n' ? "\\n" : "\\t";
    else
      out += c;
  }
  return out + "\"";
}

std::string ForPattern(std::string text) { return absl::StrReplaceAll(text, {{"%", "%%"}}); }

// spdlog writes the time, the level and what stands still; %v is our text, already escaped.
std::string Pattern(const LogOptions& options) {
  constexpr absl::string_view kTime = "%Y-%m-%dT%H:%M:%S.%eZ";
  if (!options.json) {
    const std::string who =
        absl::StrCat(options.program, options.member.empty() ? "" : " ", options.member);
    return absl::StrCat(kTime, " %l ", ForPattern(Safe(who)), " %v");
  }
  std::string fixed = absl::StrCat("\"program\":", JsonString(options.program));
  if (!options.member.empty()) absl::StrAppend(&fixed, ",\"member\":", JsonString(options.member));
  return absl::StrCat("{\"time\":\"", kTime, "\",\"level\":\"%l\",", ForPattern(fixed),
                      ",\"text\":%v}");
}

struct Log {
  std::shared_ptr<spdlog::logger> logger;
  bool json = false;
};

std::shared_ptr<const Log> MakeLog(const LogOptions& options) {
  spdlog::sink_ptr sink;
  if (options.file.empty()) {
    sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  } else {
    sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(options.file);
  }
  auto logger = std::make_shared<spdlog::logger>(options.program, std::move(sink));
  logger->set_pattern(Pattern(options), spdlog::pattern_time_type::utc);
  logger->set_level(ToSpdlog(options.level));
  logger->flush_on(spdlog::level::debug);
  return std::make_shared<const Log>(Log{std::move(logger), options.json});
}

// The one global of the project: a line must be possible from anywhere, also before and after
// main's own parts live.
struct Current {
  Mutex mutex;
  std::shared_ptr<const Log> log ABSL_GUARDED_BY(mutex) = MakeLog({.program = "muster"});
  std::atomic<LogLevel> level = LogLevel::kInfo;
};
Current& TheCurrent() {
  // Never destroyed: threads may log while the process exits.
  static Current* const current = new Current;
  return *current;
}

}  // namespace

absl::StatusOr<LogLevel> ParseLogLevel(absl::string_view text) {
  for (size_t i = 0; i < kLevelNames.size(); ++i) {
    if (text == kLevelNames[i]) return static_cast<LogLevel>(i);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("log level \"", text, "\" is unknown; use debug, info, warning or error"));
}

absl::Status StartLog(const LogOptions& options) {
  std::shared_ptr<const Log> log;
  try {
    log = MakeLog(options);
  } catch (const spdlog::spdlog_ex& error) {
    return absl::InvalidArgumentError(absl::StrCat("log file ", options.file, ": ", error.what()));
  }
  Current& current = TheCurrent();
  current.level = options.level;
  MutexLock lock(current.mutex);
  current.log = std::move(log);
  return absl::OkStatus();
}

bool LogsAt(LogLevel level) { return level >= TheCurrent().level.load(std::memory_order_relaxed); }

void WriteLog(LogLevel level, absl::string_view text) {
  std::shared_ptr<const Log> log;
  {
    Current& current = TheCurrent();
    MutexLock lock(current.mutex);
    log = current.log;
  }
  const std::string line = log->json ? JsonString(text) : Safe(text);
  log->logger->log(ToSpdlog(level), spdlog::string_view_t(line.data(), line.size()));
}

}  // namespace muster
