// What names this process among others.
#pragma once

#include <string>

#include "lib/base/ids.h"

namespace muster {

// When the process began, so that of two of one name on one host the later is known; and a random
// number, so that no two are the same.
Incarnation DrawIncarnation();

std::string HostName();  // of the machine; "localhost" where it has none

}  // namespace muster
