// muster adopt: the coordinator copies, and this looks how far it is.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "cli/arguments.h"
#include "cli/rest_client.h"
#include "cli/screen.h"

namespace muster::cli {

// The job, once it is adopted. Whoever ends this earlier ends no adoption.
absl::StatusOr<JobAnswer> Adopt(const RemoteArguments& arguments, const RestClient& rest,
                                const Terminal& terminal);

// How far it is, with the rate and the time left where they are known.
std::string AdoptionLine(const AdoptionAnswer& adoption);

}  // namespace muster::cli
