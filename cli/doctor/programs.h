// The programs that lie beside `muster`: whether they are there, and start. The worker alone has
// LibTorch, so it is asked.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/doctor/finding.h"
#include "lib/base/time.h"

namespace muster::cli::doctor {

struct Ended {
  int code = 0;        // where signal is 0
  int signal = 0;      // that ended it
  std::string output;  // of both streams, as much as 64 KiB
};
// Runs a program to its end, with one variable more in its environment ("NAME=VALUE"; empty: none),
// nothing on its input. kNotFound and others: it could not be started; kDeadlineExceeded: it was
// killed after `patience`.
absl::StatusOr<Ended> RunProgram(const std::vector<std::string>& words, const std::string& variable,
                                 Duration patience);

struct ProgramFacts {
  std::string path;
  bool is_there = false;
  absl::StatusOr<Ended> version = Ended{};       // of --version
  std::vector<std::string> missing_libraries{};  // where it did not start
};
ProgramFacts GatherProgram(const std::string& path, Duration patience);
// `what`: what is not possible without it, "members that compute cannot be started". `version`:
// that of this muster.
Finding JudgeProgram(const std::string& name, const std::string& what, const ProgramFacts& facts,
                     const std::string& version);

// Those that the dynamic linker did not find, of its list: "\tlibc10.so => not found".
std::vector<std::string> MissingLibraries(const std::string& list);

}  // namespace muster::cli::doctor
