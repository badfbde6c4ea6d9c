// What `muster doctor` prints. Pure.
#pragma once

#include <string>
#include <vector>

#include "cli/doctor/finding.h"

namespace muster::cli::doctor {

struct Section {
  std::string name;   // for programs: "host"
  std::string title;  // for people: "This host, node7"
  Findings findings;
};

struct Counts {
  int problems = 0;
  int warnings = 0;
};
Counts CountsOf(const std::vector<Section>& sections);

// Section by section, a line for each finding and one below it for what to do; the last line
// counts. `colour`: verdicts are coloured, for a terminal.
std::string TextOf(const std::vector<Section>& sections, bool colour);

// {"ok", "problems", "warnings", "findings": [{"section", "check", "verdict", "text", "advice"}]}.
std::string JsonOf(const std::vector<Section>& sections);

}  // namespace muster::cli::doctor
