#include "coordinator/service/asked_checkpoint.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/runtime/checkpoints.h"
#include "coordinator/state/plan.h"
#include "lib/base/status.h"
#include "lib/checkpoint/kept_name.h"
#include "lib/checkpoint/measure_file.h"
#include "lib/config/field_error.h"

namespace muster::coordinator {
namespace {

constexpr size_t kMostNamesShown = 16;

absl::Status NoneOfThatName(const AskedCheckpoint& asked, const std::set<std::string>& names) {
  const std::string& job = asked.job->status.job.id;
  if (asked.name == kBest)
    return FieldError("", asked.field,
                      absl::StrCat("job ", job,
                                   " has no checkpoint that was measured; checkpoint.keep: {best: "
                                   "validation.loss} of a job keeps the best one"));
  const auto end =
      names.size() > kMostNamesShown ? std::next(names.begin(), kMostNamesShown) : names.end();
  const size_t more = names.size() - std::min(names.size(), kMostNamesShown);
  return FieldError(
      "", asked.field,
      absl::StrCat("job ", job, " has no checkpoint that is kept as '", asked.name, "'; ",
                   names.empty()
                       ? "none has a name (muster checkpoints keep gives one)"
                       : absl::StrCat("there are ", absl::StrJoin(names.begin(), end, ", ")),
                   more > 0 ? absl::StrCat(" and ", more, " more") : ""));
}

ManifestPtr Found(const AskedCheckpoint& asked, const Manifest& manifest) {
  return std::make_shared<const FoundManifest>(FoundManifest{manifest, asked.job->status.removals});
}

// Another one than it seems may be meant.
absl::Status NobodyKnows(const AskedCheckpoint& asked, const absl::Status& unread) {
  return FieldError("", asked.field,
                    absl::StrCat("nobody knows which checkpoint of job ", asked.job->status.job.id,
                                 " is '", asked.name, "': ", unread.message()));
}

absl::Status IsLeftOut(const AskedCheckpoint& asked, Step step) {
  return FieldError("", asked.field,
                    absl::StrCat("job ", asked.job->status.job.id, " keeps step ", step.value(),
                                 " as '", asked.name,
                                 "', and has gone back behind that step and left it out since, so "
                                 "that nothing goes on from it; muster export writes its weights"));
}

}  // namespace

absl::StatusOr<ManifestPtr> FindCheckpoint(const Catalogue& catalogue, const std::string& root,
                                           const AskedCheckpoint& asked) {
  const JobJournal& job = asked.job->status.job;
  MUSTER_ASSIGN_OR_RETURN(const Catalogue::Listing listing, catalogue.List(job.id));
  std::vector<Manifest> usable;
  std::vector<Manifest> left_out;
  for (const Manifest& m : listing.manifests)
    (OnAncestry(job.lineages, m.lineage, m.step) ? usable : left_out).push_back(m);
  if (asked.name.empty()) {
    const auto found = std::find_if(usable.rbegin(), usable.rend(),
                                    [&](const Manifest& m) { return m.step == asked.step; });
    return found == usable.rend() ? nullptr : Found(asked, *found);
  }
  const std::unique_ptr<CheckpointFiles> files = CheckpointFilesIn(CheckpointDir(root, job.id));
  std::set<std::string> names;
  absl::Status unread;
  // True: it has the name that is asked for.
  const auto is_asked = [&](const Manifest& m) -> absl::StatusOr<bool> {
    const absl::StatusOr<std::string> name = ReadKeptName(*files, m.lineage, m.step);
    if (absl::IsUnavailable(name.status())) return name.status();
    if (!name.ok()) {
      if (!absl::IsNotFound(name.status())) unread.Update(name.status());
      return false;
    }
    names.insert(*name);
    return *name == asked.name;
  };
  for (auto m = usable.rbegin(); m != usable.rend(); ++m) {
    MUSTER_ASSIGN_OR_RETURN(const bool is_it, is_asked(*m));
    if (is_it) return Found(asked, *m);
  }
  for (const Manifest& m : left_out) {
    const absl::StatusOr<std::string> name = ReadKeptName(*files, m.lineage, m.step);
    if (name.ok() && *name == asked.name) return IsLeftOut(asked, m.step);
  }
  if (!unread.ok()) return NobodyKnows(asked, unread);
  if (asked.name == kBest) {
    MUSTER_ASSIGN_OR_RETURN(const BestFound found, FindBest(*files, usable, BestRuleOf(job.spec)));
    if (!found.why.ok()) return NobodyKnows(asked, found.why);
    if (found.best) return Found(asked, usable[*found.best]);
  }
  return NoneOfThatName(asked, names);
}

}  // namespace muster::coordinator
