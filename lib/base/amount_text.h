// How times and sizes read to people. Pure; any thread.
#pragma once

#include <functional>
#include <string>

namespace muster {

// "0.4 s", "42 s", "3:07 min", "2:03 h", "3 d 4 h"; "?" when not finite.
std::string HowLong(double seconds);
std::string Bytes(double bytes);  // "640 B", "1.5 KiB", "25 MiB"

// Of work that is so far after so long: "1.5 GiB a second, 42 s left". Empty where nothing can be
// said yet. `amount` tells how an amount reads to people, as Bytes does.
std::string PaceText(double done, double total, double seconds,
                     const std::function<std::string(double)>& amount);

}  // namespace muster
