#include "cli/doctor/checks.h"

#include <chrono>
#include <future>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"

namespace muster::cli::doctor {

Checked RunChecks(std::vector<Check> checks, std::vector<Section> sections, Duration patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  std::vector<std::future<Findings>> answers;
  for (const Check& check : checks) {
    std::packaged_task<Findings()> task(check.run);
    answers.push_back(task.get_future());
    try {
      std::thread(std::move(task)).detach();
    } catch (const std::system_error&) {
      // This user may have no more threads, which a check of its own tells.
      std::packaged_task<Findings()> here(check.run);
      answers.back() = here.get_future();
      here();
    }
  }
  Checked checked{.sections = std::move(sections)};
  for (size_t i = 0; i < checks.size(); ++i) {
    const Check& check = checks[i];
    Findings findings;
    if (answers[i].wait_until(deadline) == std::future_status::ready) {
      findings = answers[i].get();
    } else {
      checked.all_ended = false;
      findings = {Problem(
          check.name,
          absl::StrCat("Nothing was found out within ",
                       std::chrono::duration_cast<std::chrono::seconds>(patience).count(), " s."),
          check.advice)};
    }
    for (Section& section : checked.sections)
      if (section.name == check.section)
        for (Finding& finding : findings) section.findings.push_back(std::move(finding));
  }
  return checked;
}

}  // namespace muster::cli::doctor
