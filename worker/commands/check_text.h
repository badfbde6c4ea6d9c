// A report of `check` as people and as programs read it. Pure; any thread.
#pragma once

#include <string>

#include "worker/commands/check.h"

namespace muster::worker {

std::string CheckAsText(const CheckReport& report);
std::string CheckAsJson(const CheckReport& report);  // one object, docs/operations.md lists it

}  // namespace muster::worker
