#include "lib/launch/command_line.h"

#include <algorithm>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "lib/base/exit_codes.h"
#include "lib/log/log.h"

namespace muster {
namespace {

// The longest that the system opens; it would come back whole in an error.
constexpr size_t kLongestPath = 4095;

void RefuseBadValues(CLI::App& app) {
  const auto why_not = [](const std::string& value) {
    return std::string(value.empty() ? "is empty; give it a value or leave it out" : "");
  };
  const auto is_too_long = [](const std::string& path) {
    const bool fits = path.size() <= kLongestPath;
    return fits ? std::string()
                : absl::StrCat("has ", path.size(), " characters, and a path has at most ",
                               kLongestPath, "; name a shorter one");
  };
  for (CLI::Option* option : app.get_options()) {
    if (option->get_items_expected_max() > 0) option->check(why_not);
    if (option->get_type_name() == "DIR") option->check(is_too_long);
  }
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; }))
    RefuseBadValues(*command);
}

}  // namespace

void ParseCommandLine(CLI::App& app, int argc, const char* const* argv) {
  RefuseBadValues(app);
  std::vector<std::string> words;
  for (int i = 0; i < argc; ++i) {
    const std::string word = argv[i];
    // CLI11 would take the next word for the value of "--dir=".
    const bool is_empty = i > 0 && word.starts_with("--") && word.find('=') == word.size() - 1;
    words.push_back(is_empty ? word.substr(0, word.size() - 1) : word);
    if (is_empty) words.emplace_back();
  }
  std::vector<const char*> texts;
  for (const std::string& word : words) texts.push_back(word.c_str());
  app.parse(static_cast<int>(texts.size()), texts.data());
}

std::optional<int> ParseOrExit(CLI::App& app, const std::string& program, int argc,
                               const char* const* argv) {
  try {
    ParseCommandLine(app, argc, argv);
  } catch (const CLI::ParseError& error) {
    const bool asks = error.get_exit_code() == 0;  // for help or the version
    const bool logs_json = std::find(argv, argv + argc, std::string("--log-json")) != argv + argc;
    if (asks || !logs_json) return app.exit(error) == 0 ? kExitDone : kExitBadConfiguration;
    if (StartLog({.program = program, .json = true}).ok()) LogError("%s", error.what());
    return kExitBadConfiguration;
  }
  return std::nullopt;
}

}  // namespace muster
