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
  return absl::StartsWith(word, "worker-") || absl::StartsWith(word, "server-");
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

}  // namespace

std::string LastError(absl::string_view lines) {
  std::string last, error;
  for (const absl::string_view line : absl::StrSplit(lines, '\n', absl::SkipEmpty())) {
    const std::optional<LogLine> parsed = Parse(line);
    if (parsed && absl::StartsWith(parsed->text, "RocksDB: ")) continue;
    last = parsed ? parsed->text : std::string(line);
    if (parsed && parsed->level == "error") error = last;
  }
  if (!error.empty()) return error;
  return last.empty() ? "its log does not say why" : last;
}

std::string WhyOf(absl::string_view lines) {
  for (const absl::string_view line : absl::StrSplit(lines, '\n'))
    if (std::optional<LogLine> parsed = Parse(line); parsed && parsed->level == "error")
      return parsed->text;
  return lines.find_first_not_of('\n') == absl::string_view::npos ? "" : LastError(lines);
}

}  // namespace muster::agent
