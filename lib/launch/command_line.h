// How every program reads its command line.
#pragma once

namespace CLI {
class App;
}

namespace muster {

// An option or argument whose value is empty is refused by name: it is a variable of a shell that
// is not set, and would count as not given. Throws as CLI::App::parse does.
void ParseCommandLine(CLI::App& app, int argc, const char* const* argv);

}  // namespace muster
