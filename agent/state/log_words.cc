#include "agent/state/log_words.h"

#include <algorithm>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"

namespace muster::agent {
namespace {

struct LogLine {
  std::string level;
  std::string text;
};

bool IsMember(absl::string_view word) {
  return absl::StartsWith(word, "worker-") || absl::StartsWith(word, "server-") ||
         absl::StartsWith(word, "follower-") || absl::StartsWith(word, "reader-");
}

// TIME LEVEL PROGRAM [MEMBER] TEXT, or an object. Nothing: it is no line of a log.
std::optional<LogLine> Parse(absl::string_view line) {
  const auto object = nlohmann::json::parse(line.begin(), line.end(), nullptr, false);
  if (object.is_object()) {
    const auto text = object.find("text");
    if (text == object.end() || !text->is_string()) return std::nullopt;
    const auto level = object.find("level");
    const bool has_level = level != object.end() && level->is_string();
    return LogLine{has_level ? level->get<std::string>() : "", text->get<std::string>()};
  }
  const auto word = [&line] {
    const absl::string_view first = line.substr(0, line.find(' '));
    line.remove_prefix(std::min(first.size() + 1, line.size()));
    return first;
  };
  word();
  LogLine parsed{.level = std::string(word()), .text = {}};
  if (!absl::StartsWith(word(), "muster-")) return std::nullopt;
  const absl::string_view member = line.substr(0, line.find(' '));
  if (IsMember(member) && member.size() < line.size()) word();
  parsed.text = std::string(line);
  return parsed;
}

// What went well is no cause, though it may stand last.
bool MayBeACause(const LogLine& line) {
  const bool goes_well = line.level == "info" || line.level == "debug";
  return !goes_well && !absl::StartsWith(line.text, "RocksDB: ");
}

// The last error; where there is none, the last line that may be a cause; else empty.
std::string LastCause(absl::string_view lines) {
  std::string last, error;
  for (const absl::string_view line : absl::StrSplit(lines, '\n', absl::SkipEmpty())) {
    const std::optional<LogLine> parsed = Parse(line);
    if (parsed && !MayBeACause(*parsed)) continue;
    last = parsed ? parsed->text : std::string(line);
    if (parsed && parsed->level == "error") error = last;
  }
  return error.empty() ? last : error;
}

}  // namespace

std::string LastError(absl::string_view lines) {
  std::string cause = LastCause(lines);
  return cause.empty() ? "its log does not say why" : cause;
}

std::string WhyOf(absl::string_view lines) {
  for (const absl::string_view line : absl::StrSplit(lines, '\n'))
    if (std::optional<LogLine> parsed = Parse(line);
        parsed && parsed->level == "error" && MayBeACause(*parsed))
      return parsed->text;
  return LastCause(lines);
}

}  // namespace muster::agent
