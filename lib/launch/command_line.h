// How every program reads its command line.
#pragma once

#include <optional>
#include <string>

namespace CLI {
class App;
}

namespace muster {

// An option or argument whose value is empty is refused by name: it is a variable of a shell that
// is not set, and would count as not given. Throws as CLI::App::parse does.
void ParseCommandLine(CLI::App& app, int argc, const char* const* argv);

// The same of a program that only logs: none, or the exit code of a command line that was refused
// or asked for help. With --log-json what is wrong is a line of the log, as all that it writes.
std::optional<int> ParseOrExit(CLI::App& app, const std::string& program, int argc,
                               const char* const* argv);

}  // namespace muster
