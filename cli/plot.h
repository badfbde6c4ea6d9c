// muster plot: the curves of one job or several, of a cluster or of folders, as a picture.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/arguments.h"
#include "cli/rest_client.h"
#include "cli/screen.h"

namespace muster::cli {

// A job that is shown beside others.
struct JobPlace {
  RestClient rest;
  std::string job;
  std::string folder;  // empty: it is not of a folder that was named
};

// The names by which people tell them apart: their ids, and where several have the same, the folder
// too, and where that is the same, a number.
std::vector<std::string> NamesOf(const std::vector<JobPlace>& jobs);

// kInvalidArgument: the command asks for what there is not, and what there is.
absl::Status CheckPlot(const RemoteArguments& arguments);

absl::StatusOr<int> Plot(const RemoteArguments& arguments, const std::vector<JobPlace>& jobs,
                         std::ostream& out);

}  // namespace muster::cli
