// --log-level and --log-json: a program's own, or those of the processes that it starts.
#pragma once

#include <string>
#include <vector>

#include "lib/log/log.h"

namespace CLI {
class App;
}

namespace muster {

struct LogFlags {
  std::string level = "info";  // one that ParseLogLevel knows
  bool json = false;
};

// `flags` outlives the parsing, which refuses a level that is not known. `whose`: for --help.
void AddLogFlags(CLI::App& app, const std::string& whose, LogFlags& flags);

// For StartLog.
LogOptions LogOptionsOf(const LogFlags& flags, const std::string& program);

// The command line that says the same to another program.
std::vector<std::string> ArgumentsOf(const LogFlags& flags);

}  // namespace muster
