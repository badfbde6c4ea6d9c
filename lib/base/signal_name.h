// What a signal is called.
#pragma once

#include <string>

namespace muster {

// "SIGKILL"; "signal 77" for one without a name.
std::string SignalName(int signal);

}  // namespace muster
