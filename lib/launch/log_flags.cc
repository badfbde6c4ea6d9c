#include "lib/launch/log_flags.h"

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"

namespace muster {

void AddLogFlags(CLI::App& app, const std::string& whose, LogFlags& flags) {
  const auto why_not = [](const std::string& text) {
    return std::string(ParseLogLevel(text).status().message());
  };
  app.add_option(
         "--log-level", flags.level,
         absl::StrCat("the least that goes into ", whose, ": debug, info, warning or error"))
      ->check(why_not)
      ->capture_default_str()
      ->type_name("LEVEL");
  app.add_flag("--log-json", flags.json, absl::StrCat("each line of ", whose, " is a JSON object"));
}

LogOptions LogOptionsOf(const LogFlags& flags, const std::string& program) {
  return {.program = program,
          .level = ParseLogLevel(flags.level).value_or(LogLevel::kInfo),
          .json = flags.json};
}

std::vector<std::string> ArgumentsOf(const LogFlags& flags) {
  std::vector<std::string> arguments = {"--log-level", flags.level};
  if (flags.json) arguments.push_back("--log-json");
  return arguments;
}

}  // namespace muster
