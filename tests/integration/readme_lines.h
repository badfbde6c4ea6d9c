// The lines of the README that start a job on one machine, on a few hosts and under launchers, as a
// person copies them, without their comments. Those for Kubernetes are tried by tests/kube.
#pragma once

#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"

namespace muster::integration {

inline std::vector<std::string> LinesOfReadme() {
  std::ifstream in(MUSTER_SOURCE "/README.md");
  std::vector<std::string> lines;
  bool is_there = false;
  for (std::string line; std::getline(in, line);) {
    if (absl::StartsWith(line, "## ")) is_there = absl::StrContains(line, "under Slurm");
    if (absl::StartsWith(line, "### On Kubernetes")) is_there = false;
    const std::string command(absl::StripAsciiWhitespace(line.substr(0, line.find('#'))));
    if (is_there && absl::StartsWith(line, "    ") && !command.empty()) lines.push_back(command);
  }
  return lines;
}

}  // namespace muster::integration
