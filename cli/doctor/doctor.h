// `muster doctor`: looks at this host, a folder and a cluster, and says what is wrong and what to
// do (docs/operations.md). It changes nothing.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/arguments.h"
#include "cli/screen.h"

namespace muster::cli {

// What main knows of this process and of other programs.
struct DoctorSurroundings {
  std::string programs;  // the folder with Muster's programs
  std::function<absl::StatusOr<std::vector<std::string>>()> devices;  // as --devices auto has them
  std::optional<std::string> visible_devices;                         // CUDA_VISIBLE_DEVICES
  std::string temporary;                                              // TMPDIR, else /tmp
  // Fills in token and trust (cli/tokens.h). May hang where the file system of --dir does.
  std::function<absl::Status(RemoteArguments&)> find_what_it_shows;
};

struct Examined {
  int exit_code = 0;      // 1: there is a problem
  bool all_ended = true;  // else threads are left, which end with the process alone
};
Examined Doctor(const DoctorArguments& arguments, const DoctorSurroundings& surroundings,
                const Terminal& terminal);

}  // namespace muster::cli
