// Checks run all at once, each on a thread of its own and for a bounded time: one that hangs, as a
// file system may whose server is gone, keeps no other one from its answer.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/doctor/finding.h"
#include "cli/doctor/report.h"
#include "lib/base/time.h"

namespace muster::cli::doctor {

struct Check {
  std::string section;  // name of the section that its findings go to
  std::string name;     // what is said where it does not end
  std::string advice;   // likewise
  // May be on its thread still when everything else is over, so it holds what it needs.
  std::function<Findings()> run;
};

struct Checked {
  std::vector<Section>
      sections;           // as they were given, with the findings in the order of the checks
  bool all_ended = true;  // else threads are left, which end with the process alone
};
Checked RunChecks(std::vector<Check> checks, std::vector<Section> sections, Duration patience);

}  // namespace muster::cli::doctor
