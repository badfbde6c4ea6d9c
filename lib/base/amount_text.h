// How times and sizes read to people. Pure; any thread.
#pragma once

#include <string>

namespace muster {

// "0.4 s", "42 s", "3:07 min", "2:03 h", "3 d 4 h"; "?" when not finite.
std::string HowLong(double seconds);
std::string Bytes(double bytes);  // "640 B", "1.5 KiB", "25 MiB"

}  // namespace muster
