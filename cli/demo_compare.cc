#include "cli/demo_compare.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "cli/cluster_folder.h"
#include "cli/format.h"

namespace muster::cli {
namespace {

std::string FingerprintAt(const std::vector<StepFingerprint>& fingerprints, int64_t step) {
  for (const StepFingerprint& fingerprint : fingerprints)
    if (fingerprint.step == step) return fingerprint.value;
  return "";
}

std::string OrNone(const std::string& text) { return text.empty() ? "none" : text; }

}  // namespace

int64_t FirstFingerprintAfter(const std::vector<StepFingerprint>& fingerprints, int64_t step) {
  int64_t first = -1;
  for (const StepFingerprint& fingerprint : fingerprints)
    if (fingerprint.step > step && (first < 0 || fingerprint.step < first))
      first = fingerprint.step;
  return first;
}

std::string Shortfall(const JobResult& disturbed) {
  constexpr char kHint[] = ": give the job more steps (--set steps=N)";
  if (!disturbed.missed_faults.empty())
    return absl::StrCat("these faults did not happen in the disturbed run (",
                        absl::StrJoin(disturbed.missed_faults, "; "), ")", kHint);
  if (disturbed.job.recoveries < 1) return absl::StrCat("the disturbed run had no recovery", kHint);
  if (disturbed.steps_without_coordinator < kWithoutCoordinator)
    return absl::StrCat("only ", Plural(disturbed.steps_without_coordinator, "step"),
                        " went on without the coordinator, fewer than ", kWithoutCoordinator,
                        kHint);
  return "";
}

Comparison Compare(const JobResult& disturbed, const JobResult& undisturbed, int64_t step) {
  const std::string ours = FingerprintAt(disturbed.fingerprints, step);
  const std::string theirs = FingerprintAt(undisturbed.fingerprints, step);
  Comparison comparison{.equal = !ours.empty() && ours == theirs};
  std::string& text = comparison.text;
  const auto row = [&](const std::string& what, const std::string& left, const std::string& right) {
    absl::StrAppendFormat(&text, "  %-26s %-34s %s\n", what, left, right);
  };
  const auto numbers = [&](const char* what, int64_t left, int64_t right) {
    row(what, absl::StrCat(left), absl::StrCat(right));
  };
  row("", "disturbed", "undisturbed");
  numbers("workers", disturbed.job.workers, undisturbed.job.workers);
  numbers("views", disturbed.job.views, undisturbed.job.views);
  numbers("recoveries", disturbed.job.recoveries, undisturbed.job.recoveries);
  numbers("rewinds", disturbed.job.rewinds, undisturbed.job.rewinds);
  numbers("lanes computed again", disturbed.job.lanes_recomputed, undisturbed.job.lanes_recomputed);
  numbers("steps without coordinator", disturbed.steps_without_coordinator,
          undisturbed.steps_without_coordinator);
  row(absl::StrCat("fingerprint of step ", step), OrNone(ours), OrNone(theirs));
  absl::StrAppend(&text, comparison.equal
                             ? "The fingerprints agree: every bit of the model is the same.\n\n"
                             : "THE FINGERPRINTS DIFFER.\n\n");
  if (disturbed.first_loss)
    absl::StrAppend(&text, "  loss         ", Loss(*disturbed.first_loss), " at first, ",
                    Loss(disturbed.job.loss), " at last\n");
  absl::StrAppend(&text, "  digest       ", OrNone(disturbed.job.digest), "\n");
  absl::StrAppend(&text, "  checkpoints  ", disturbed.folder, "/checkpoints\n");
  absl::StrAppend(&text, "  metrics      ", disturbed.folder, "/prometheus-targets.json\n");
  absl::StrAppend(&text, "  logs         ", LogFolder(disturbed.folder, disturbed.job.id), "\n");
  if (!disturbed.sample.empty())
    absl::StrAppend(&text, "\nWhat the trained model writes:\n", disturbed.sample, "\n");
  return comparison;
}

}  // namespace muster::cli
