#include "coordinator/mlflow/job_at_mlflow.h"

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "coordinator/state/rights.h"
#include "lib/base/printable.h"
#include "lib/base/status.h"
#include "lib/wire/hyper_parameters.h"

namespace muster::coordinator {
namespace {

// Of one call: other jobs are to have their turn.
constexpr int kMostPages = 5;
// What every version of MLflow takes of a value.
constexpr size_t kMostParamBytes = 500;
constexpr size_t kMostTagBytes = 5000;

std::string ValueText(const HyperParameter& parameter) {
  if (const auto* number = std::get_if<double>(&parameter.value))
    return absl::StrFormat("%.17g", *number);
  if (const auto* flag = std::get_if<bool>(&parameter.value)) return *flag ? "true" : "false";
  return Cut(Printable(std::get<std::string>(parameter.value)), kMostParamBytes);
}

std::string StatusFor(JobPhase phase) {
  switch (phase) {
    case JobPhase::kDone: return "FINISHED";
    case JobPhase::kFailed: return "FAILED";
    case JobPhase::kStopped:
    case JobPhase::kCancelled: return "KILLED";
    default: return "RUNNING";
  }
}

// They say what a person finds the job by, and what it came to.
MlflowTexts TagsFor(const std::string& cluster, const JobJournal& job) {
  MlflowTexts tags = {{kMlflowRunTag, MlflowKeyOf(cluster, job)},
                      {"muster.cluster", cluster},
                      {"muster.job", job.id},
                      {"muster.namespace", std::string(NamespaceOf(job.spec))},
                      {"muster.state", std::string(PhaseName(job.phase))},
                      {"muster.lineage", absl::StrCat(job.lineages.back().number.value())},
                      {"mlflow.source.name", "muster"},
                      {"mlflow.source.type", "JOB"}};
  if (!job.owner.empty()) tags.emplace_back("mlflow.user", job.owner);
  if (!job.ending.digest.empty()) tags.emplace_back("muster.digest", job.ending.digest);
  if (Ended(job.phase) && !job.reason.empty()) tags.emplace_back("muster.reason", job.reason);
  if (!job.ending.sample.empty()) tags.emplace_back("muster.sample", job.ending.sample);
  for (auto& [key, value] : tags) value = Cut(PrintableLines(value), kMostTagBytes);
  return tags;
}

absl::Status Deleted(const std::string& what) {
  return absl::FailedPreconditionError(
      absl::StrCat(what,
                   " was deleted there, so nothing more is sent; restore it there, and start "
                   "the coordinator again"));
}

absl::Status Tell(const AskMlflow& ask, const std::string& path, const std::string& body) {
  MUSTER_ASSIGN_OR_RETURN(const std::string answer, ask(path, body));
  return CheckTaken(answer);
}

// Two coordinators of one server may make it at once.
absl::StatusOr<std::string> IdOfExperiment(const std::string& name, const AskMlflow& ask) {
  absl::StatusOr<std::string> found = ask(MlflowFindExperiment(name), "");
  if (absl::IsNotFound(found.status())) {
    const absl::StatusOr<std::string> made =
        ask(kMlflowCreateExperiment, CreateExperimentBody(name));
    if (made.ok()) return CreatedExperimentIn(*made);
    if (!absl::IsAlreadyExists(made.status())) return made.status();
    found = ask(MlflowFindExperiment(name), "");
  }
  MUSTER_RETURN_IF_ERROR(found.status());
  MUSTER_ASSIGN_OR_RETURN(const MlflowExperiment experiment, ExperimentIn(*found));
  if (experiment.is_deleted) return Deleted(absl::StrCat("experiment ", Cut(Printable(name))));
  return experiment.id;
}

}  // namespace

std::string MlflowKeyOf(const std::string& cluster, const JobJournal& job) {
  return absl::StrCat(cluster, "/", job.id, "/", job.first_start.value());
}

absl::StatusOr<bool> JobAtMlflow::Follow(const JobJournal& job, Step recorded,
                                         const ReadSteps& read, const AskMlflow& ask,
                                         MlflowExperiments& experiments) {
  if (job.lineages.empty() || recorded.value() == 0) return false;
  absl::StatusOr<bool> more = false;
  if (!run_)
    more = [&]() -> absl::StatusOr<bool> {
      MUSTER_RETURN_IF_ERROR(Find(job, recorded, read, ask, experiments));
      return false;
    }();
  if (more.ok() && run_) more = Send(job, recorded, read, ask);
  // Nobody knows what of it the server took.
  if (!more.ok()) run_.reset();
  return more;
}

absl::Status JobAtMlflow::Find(const JobJournal& job, Step recorded, const ReadSteps& read,
                               const AskMlflow& ask, MlflowExperiments& experiments) {
  const std::string name = place_.experiment.empty()
                               ? absl::StrCat("muster-", std::string(NamespaceOf(job.spec)))
                               : place_.experiment;
  auto known = experiments.find(name);
  if (known == experiments.end()) {
    MUSTER_ASSIGN_OR_RETURN(std::string id, IdOfExperiment(name, ask));
    known = experiments.emplace(name, std::move(id)).first;
  }
  const std::string experiment = known->second;
  const absl::StatusOr<std::string> answer =
      ask(kMlflowSearchRuns, SearchRunsBody(experiment, MlflowKeyOf(place_.cluster, job)));
  // It may be another database since.
  if (absl::IsNotFound(answer.status())) experiments.erase(name);
  MUSTER_RETURN_IF_ERROR(answer.status());
  MUSTER_ASSIGN_OR_RETURN(std::optional<MlflowRun> found, FoundRunIn(*answer));
  if (found && found->is_deleted) return Deleted(absl::StrCat("the run of job ", job.id));
  if (!found) {
    MUSTER_ASSIGN_OR_RETURN(const HistoryPage page, read(job, recorded, 0));
    if (page.steps.empty()) return absl::OkStatus();
    const absl::StatusOr<std::string> made =
        ask(kMlflowCreateRun, CreateRunBody(experiment, job.id, page.steps.front().unix_ms,
                                            TagsFor(place_.cluster, job)));
    // Its experiment may have been deleted since it was found.
    if (!made.ok()) experiments.erase(name);
    MUSTER_RETURN_IF_ERROR(made.status());
    MUSTER_ASSIGN_OR_RETURN(found, CreatedRunIn(*made));
  }
  next_ = FirstStepToRead(found->newest);
  run_ = std::move(found);
  return absl::OkStatus();
}

absl::StatusOr<bool> JobAtMlflow::Send(const JobJournal& job, Step recorded, const ReadSteps& read,
                                       const AskMlflow& ask) {
  const bool is_over = Ended(job.phase);
  if (!is_over && run_->status != "RUNNING") MUSTER_RETURN_IF_ERROR(SetStatus("RUNNING", 0, ask));
  MUSTER_RETURN_IF_ERROR(SendTexts(job, ask));
  for (int pages = 0; Step(next_) <= recorded; ++pages) {
    if (pages == kMostPages) return true;
    MUSTER_ASSIGN_OR_RETURN(const HistoryPage page, read(job, recorded, next_));
    if (page.steps.empty()) break;
    const std::vector<MlflowPoint> points = PointsBehind(page.steps, run_->newest);
    for (size_t at = 0; at < points.size(); at += kMostMlflowPoints)
      MUSTER_RETURN_IF_ERROR(
          SendPoints(absl::MakeConstSpan(points).subspan(at, kMostMlflowPoints), ask));
    // After a rewind the history may be shorter than what the server has.
    newest_ms_ = page.steps.back().unix_ms;
    // That is no step: the job may be made longer, and do it.
    if (const std::optional<int64_t> state = page.steps.back().last_state) {
      next_ = std::max(next_, *state);
      break;
    }
    next_ = std::max(next_, page.steps.back().step + 1);
  }
  if (is_over && run_->status != StatusFor(job.phase))
    MUSTER_RETURN_IF_ERROR(SetStatus(StatusFor(job.phase), newest_ms_, ask));
  return false;
}

// A parameter cannot be changed there; what a job is made longer by stands in a tag.
absl::Status JobAtMlflow::SendTexts(const JobJournal& job, const AskMlflow& ask) {
  MlflowTexts params, tags;
  const auto add_tag = [&](const std::string& key, const std::string& value) {
    const auto known = run_->tags.find(key);
    if (known == run_->tags.end() || known->second != value) tags.emplace_back(key, value);
  };
  const std::vector<HyperParameter> parameters = HyperParametersOf(job.spec);
  std::vector<std::string> names;
  for (const HyperParameter& parameter : parameters) names.push_back(parameter.name);
  // Some are keys that a person wrote, such as the names of columns.
  names = NamesForMlflow(names);
  for (size_t i = 0; i < parameters.size(); ++i) {
    const std::string value = ValueText(parameters[i]);
    const auto known = run_->params.find(names[i]);
    if (known == run_->params.end()) {
      if (!value.empty()) params.emplace_back(names[i], value);
    } else if (known->second != value) {
      add_tag(absl::StrCat("muster.now.", names[i]), value);
    }
  }
  for (const auto& [key, value] : TagsFor(place_.cluster, job)) add_tag(key, value);
  for (size_t at = 0; at < std::max(params.size(), tags.size()); at += kMostMlflowTexts) {
    const auto part = [at](const MlflowTexts& texts) {
      const size_t begin = std::min(at, texts.size());
      const size_t end = std::min(at + kMostMlflowTexts, texts.size());
      return MlflowTexts(texts.begin() + static_cast<ptrdiff_t>(begin),
                         texts.begin() + static_cast<ptrdiff_t>(end));
    };
    MUSTER_RETURN_IF_ERROR(
        Tell(ask, kMlflowLogBatch, BatchBody(run_->id, {}, part(params), part(tags))));
  }
  run_->params.insert(params.begin(), params.end());
  for (const auto& [key, value] : tags) run_->tags[key] = value;
  return absl::OkStatus();
}

absl::Status JobAtMlflow::SendPoints(absl::Span<const MlflowPoint> points, const AskMlflow& ask) {
  MUSTER_RETURN_IF_ERROR(Tell(ask, kMlflowLogBatch, BatchBody(run_->id, points, {}, {})));
  for (const MlflowPoint& point : points) run_->newest[point.key] = point.step;
  return absl::OkStatus();
}

absl::Status JobAtMlflow::SetStatus(const std::string& status, int64_t end_ms,
                                    const AskMlflow& ask) {
  MUSTER_RETURN_IF_ERROR(Tell(ask, kMlflowUpdateRun, UpdateRunBody(run_->id, status, end_ms)));
  run_->status = status;
  return absl::OkStatus();
}

}  // namespace muster::coordinator
