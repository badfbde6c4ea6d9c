// The id of a job that is submitted without one.
#pragma once

#include <string>

namespace muster::coordinator {

// Of its name and random bits.
std::string MakeJobId(const std::string& name);

}  // namespace muster::coordinator
