#include "coordinator/service/job_questions.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "coordinator/runtime/checkpoints.h"
#include "coordinator/runtime/log_store.h"
#include "coordinator/service/answer_size.h"
#include "coordinator/state/plan.h"
#include "coordinator/state/stored_job.h"
#include "lib/base/digits.h"
#include "lib/base/printable.h"
#include "lib/base/status.h"
#include "lib/checkpoint/catalogue.h"
#include "lib/checkpoint/kept_name.h"
#include "lib/checkpoint/load.h"
#include "lib/checkpoint/manifest_file.h"
#include "lib/checkpoint/measure_file.h"
#include "lib/checkpoint/segment.h"
#include "lib/checkpoint/survey.h"
#include "lib/config/field_error.h"
#include "lib/config/places.h"
#include "lib/domain/audit.h"
#include "lib/domain/fork.h"
#include "lib/domain/labels.h"
#include "lib/domain/ledger.h"
#include "lib/domain/member_name.h"
#include "lib/domain/role_name.h"
#include "lib/domain/samples.h"
#include "lib/domain/validation.h"
#include "lib/task/registry.h"
#include "lib/wire/job_codec.h"

namespace muster::coordinator {

namespace {

JobMember DescribeMember(const MemberStatus& status) {
  JobMember member{.name = status.member.id.name,
                   .role = NameOfRole(status.member.role),
                   .rank = status.member.rank.value(),
                   .local_rank = status.member.local_rank,
                   .node = status.member.node,
                   .host = status.host,
                   .address = status.member.address,
                   .incarnation = ToHex(status.member.id.incarnation),
                   .state = status.state,
                   .phase = status.phase,
                   .step = status.step.value()};
  for (const LaneId lane : status.lanes) member.lanes.push_back(lane.value());
  return member;
}

// Of a job that has not begun, too, where its specification says it; 0: not known yet.
int64_t StepsOf(const JobStatus& status) {
  const TrainingSpec& training = status.job.spec.training;
  if (IsStreamed(training)) return status.steps > 0 ? status.steps : training.steps;
  if (status.steps > 0 || training.steps > 0) return std::max(status.steps, training.steps);
  const TaskInfo* task = FindTask(training.task);
  if (task == nullptr || task->data_needed) return 0;
  return TotalSteps(training,
                    training.data.samples > 0 ? training.data.samples : task->default_samples);
}

uint64_t SampleCountOf(const JobStatus& status) {
  const StreamStatus stream = status.stream.value_or(StreamStatus());
  return SampleCountOf(status.job, {stream.positions, stream.end});
}

std::optional<StreamInfo> DescribeStream(const std::optional<StreamStatus>& stream) {
  if (!stream) return std::nullopt;
  return StreamInfo{.samples = stream->positions,
                    .end = stream->end,
                    .trimmed = stream->trimmed,
                    .spool_bytes = stream->spool_bytes,
                    .file = stream->file};
}

void DescribeProgress(const JobStatus& status, JobInfo& info) {
  const TrainingSpec& training = status.job.spec.training;
  info.step = status.step.value();
  info.steps = StepsOf(status);
  info.epochs = training.epochs;
  const uint64_t n = SampleCountOf(status);
  if (n == 0) return;
  const int64_t per_epoch = StepsPerEpoch(training, n);
  info.epoch = info.step / per_epoch;
  if (info.epochs == 0) info.epochs = (info.steps + per_epoch - 1) / per_epoch;
  const uint64_t in_epoch =
      static_cast<uint64_t>(info.step % per_epoch) * static_cast<uint64_t>(training.batch);
  info.samples = static_cast<uint64_t>(info.epoch) * n + std::min(in_epoch, n);
}

void DescribeMeasures(const JobJournal& job, const JobTail& tail, JobInfo& info) {
  if (!job.environment) return;
  const std::vector<TaskMetric> metrics = MetricsIn(job.environment->tensors);
  // What counts is the state: of the last one a fact may be of the lineage before, which had no
  // step beyond it.
  const std::optional<MeasuredEntry>& last = tail.measured;
  const Step state = last ? last->step - (DelayOf(job.spec.training.validation) - 1) : Step(0);
  if (last && OnAncestry(job.lineages, last->lineage, state)) {
    info.validation = ValuesOf(metrics, last->measures);
    info.validation_step = state.value();
  } else {
    for (const TaskMetric& metric : metrics) info.validation.push_back({metric.name, std::nullopt});
  }
}

void DescribeView(const JobJournal& job, JobInfo& info) {
  if (!job.view) return;
  info.view = job.view->number.value();
  info.lineage = job.view->lineage.value();
  for (size_t i = 0; i < job.view->members.size(); ++i) {
    const auto& holders = job.view->lanes.holder_of;
    info.workers += std::count(holders.begin(), holders.end(), static_cast<int32_t>(i)) > 0;
  }
}

}  // namespace

std::optional<ParentInfo> ParentOf(const JobSpec& spec) {
  const std::optional<ParentState>& parent = spec.training.initial.parent;
  if (!parent) return std::nullopt;
  return ParentInfo{parent->job, parent->step.value_or(0), parent->digest};
}

JobInfo Describe(const KnownJobPtr& known, int64_t now_unix_ms) {
  const JobStatus& status = known->status;
  const JobJournal& job = status.job;
  JobInfo info{.id = job.id,
               .name = job.spec.runtime.name,
               .state = std::string(PhaseName(job.phase)),
               .reason = job.reason,
               .waits_for = status.waits_for,
               .deleting = job.deleting,
               .first_start = job.first_start.value(),
               .digest = job.ending.digest,
               .sample = job.ending.sample,
               .views = job.views,
               .recoveries = job.recoveries,
               .rewinds = job.rewinds,
               .lanes_recomputed = job.lanes.recomputed(),
               .owner = job.owner,
               .parent = ParentOf(job.spec),
               .stream = DescribeStream(status.stream),
               .spec = std::shared_ptr<const JobSpec>(known, &job.spec)};
  DescribeProgress(status, info);
  DescribeView(job, info);
  const JobTail& tail = known->tail;
  info.loss = tail.loss;
  DescribeMeasures(job, tail, info);
  if (tail.fingerprint) {
    info.fingerprint = ToHex(tail.fingerprint->value);
    info.fingerprint_step = tail.fingerprint->step.value();
  }
  for (const MemberStatus& member : status.members) info.members.push_back(DescribeMember(member));
  for (const auto& [lineage, step] : status.checkpoints)
    info.checkpoints.push_back({lineage.value(), step.value()});
  if (!info.checkpoints.empty()) info.checkpoint_step = info.checkpoints.back().step;
  if (Ended(job.phase)) info.exit_code = job.ending.exit_code;
  if (!info.digest.empty()) info.digest_step = info.checkpoint_step.value_or(info.step);
  const JobTimes& times = known->times;
  if (times.started > 0)
    info.seconds =
        static_cast<double>((times.ended > 0 ? times.ended : now_unix_ms) - times.started) / 1000;
  const std::optional<double> per_step = tail.pace.SecondsPerStep();
  if (per_step && info.steps > 0 && job.phase == JobPhase::kRunning)
    info.seconds_left =
        *per_step * static_cast<double>(std::max<int64_t>(0, info.steps - info.step));
  return info;
}

JobInfo DescribeNow(const KnownJobPtr& known) {
  return Describe(known, absl::ToUnixMillis(absl::Now()));
}

namespace {

// What a query asks for, checked.
struct PageBounds {
  size_t limit = 0;
  int64_t after = 0;  // in the order of submission
  std::string state;
  std::string name_space;
  std::map<std::string, std::string> labels;
  std::string scope;
};

absl::StatusOr<PageBounds> BoundsOf(const JobQuery& query) {
  PageBounds bounds{.state = query.state,
                    .name_space = query.name_space,
                    .labels = query.labels,
                    .scope = query.scope};
  if (!query.name_space.empty() && !IsDnsLabel(query.name_space))
    return FieldError("", "namespace", "must be 1 to 63 lower-case letters, digits and hyphens");
  for (const auto& [key, value] : query.labels)
    if (const std::string why = WhyNotLabel(key, value); !why.empty())
      return FieldError("", "label", why);
  if (query.limit < 0 || query.limit > kMostJobsPerPage)
    return FieldError("", "limit", absl::StrCat("must be 1 to ", kMostJobsPerPage));
  bounds.limit = static_cast<size_t>(query.limit == 0 ? kJobsPerPage : query.limit);
  if (!query.page_token.empty() && !ParseDigits(query.page_token, &bounds.after))
    return FieldError("", "page_token", "must be the next_page_token of an earlier answer");
  std::vector<std::string> states;
  for (const JobPhase phase : kJobPhases) states.emplace_back(PhaseName(phase));
  if (!query.state.empty() && std::find(states.begin(), states.end(), query.state) == states.end())
    return FieldError("", "state",
                      absl::StrCat("'", query.state, "' is not known; allowed: ",
                                   absl::StrJoin(states, ", "), DidYouMean(query.state, states)));
  return bounds;
}

JobPage PageWithin(KnownJobs jobs, const PageBounds& bounds) {
  std::erase_if(jobs, [&](const KnownJobPtr& known) {
    const JobJournal& job = known->status.job;
    return job.submission <= bounds.after ||
           (!bounds.state.empty() && PhaseName(job.phase) != bounds.state) ||
           (!bounds.name_space.empty() && job.spec.queue.name_space != bounds.name_space) ||
           !HasLabels(job.spec.queue.labels, bounds.labels) ||
           !Sees({.scope = bounds.scope}, RightsOf(job));
  });
  std::sort(jobs.begin(), jobs.end(), [](const KnownJobPtr& a, const KnownJobPtr& b) {
    return a->status.job.submission < b->status.job.submission;
  });
  JobPage page;
  int64_t last = 0;
  size_t bytes = 0;
  for (const KnownJobPtr& known : jobs) {
    JobInfo info = DescribeNow(known);
    bytes += AboutBytesOf(info);
    const bool full = page.jobs.size() == bounds.limit || bytes > kMostPageBytes;
    if (full && !page.jobs.empty()) {
      page.next_page_token = absl::StrCat(last);
      break;
    }
    last = known->status.job.submission;
    page.jobs.push_back(std::move(info));
  }
  return page;
}

}  // namespace

absl::StatusOr<JobPage> PageOf(const KnownJobs& jobs, const JobQuery& query) {
  MUSTER_ASSIGN_OR_RETURN(const PageBounds bounds, BoundsOf(query));
  return PageWithin(jobs, bounds);
}

absl::StatusOr<JobFingerprints> ReadFingerprints(const Journal& journal, const JobJournal& job,
                                                 Step from, const std::stop_token& stop) {
  MUSTER_ASSIGN_OR_RETURN(const std::vector<FingerprintEntry> entries,
                          journal.Fingerprints(job.id, stop));
  std::map<Step, JobFingerprint> by_step;  // the last lineage's word on a step counts
  for (const FingerprintEntry& e : entries)
    if (e.step >= from && OnAncestry(job.lineages, e.lineage, e.step))
      by_step[e.step] = {e.step.value(), e.lineage.value(), ToHex(e.value)};
  JobFingerprints part;
  for (auto& [step, fingerprint] : by_step) {
    if (part.fingerprints.size() == kMostFingerprints) {
      part.next = step.value();
      break;
    }
    part.fingerprints.push_back(std::move(fingerprint));
  }
  return part;
}

namespace {

// The positions that the records name were facts.
void AuditStream(const Journal& journal, const JobJournal& job, AuditReport& report) {
  const absl::StatusOr<StreamRows> rows = journal.StreamOf(job.id);
  const uint64_t used = report.samples + report.skipped_samples;
  std::string why;
  if (!rows.ok())
    why = std::string(rows.status().message());
  else if (const uint64_t known = rows->positions(); used > known)
    why = absl::StrCat("the records name ", used,
                       " samples of the stream, and the journal knows of ", known);
  if (why.empty()) return;
  report.ok = false;
  report.conclusion = std::move(why);
}

}  // namespace

absl::StatusOr<JobAudit> RunAudit(const Journal& journal, const JobStatus& status,
                                  const std::stop_token& stop) {
  const JobJournal& job = status.job;
  JobAudit audit;
  audit.parent = ParentOf(job.spec);
  for (const Lineage& l : job.lineages)
    audit.lineages.push_back({l.number.value(), l.parent.value(), l.fork.value(), l.cause});
  if (job.lineages.empty() || !job.environment) {
    audit.conclusion = "no step has been done yet";
    return audit;
  }
  const std::vector<LineagePart> history = HistoryOf(job.lineages);
  const Step first = history.front().first;  // of an adopted job
  Auditor auditor(job.spec.training, SampleCountOf(status), first);
  const auto add = [&](const RecordedStep& step) { return auditor.Add(step.record, stop); };
  MUSTER_RETURN_IF_ERROR(journal.ScanHistory(job.id, history, Step(0), status.step, add, stop));
  if (stop.stop_requested()) return absl::CancelledError("the audit was stopped");
  AuditReport report = std::move(auditor).Conclude(status.step);
  if (IsStreamed(job.spec.training) && report.ok) AuditStream(journal, job, report);
  audit.ok = report.ok;
  audit.conclusion = report.conclusion;
  if (first > Step(0))
    absl::StrAppend(&audit.conclusion, "; the steps below ", first.value(),
                    " are not in this ledger: the checkpoint that was ", job.lineages.front().cause,
                    ", vouches for them");
  if (const auto& parent = job.spec.training.initial.parent)
    absl::StrAppend(&audit.conclusion, "; the account begins at step 0 with the state of ",
                    Describe(*parent), ", whose own ledger vouches for it");
  if (const std::string left_out = DataLeftOut(*job.environment); !left_out.empty())
    absl::StrAppend(&audit.conclusion, "; the data is without ", left_out);
  audit.plugins = PluginUsesOf(job);
  for (const std::string& change : DescribeChanges(audit.plugins))
    absl::StrAppend(&audit.conclusion, "; ", change);
  audit.steps = report.steps;
  audit.full_epochs = report.full_epochs;
  audit.samples = report.samples;
  audit.skipped_steps = report.skipped_steps;
  audit.skipped_samples = report.skipped_samples;
  audit.left_out_samples = report.left_out_samples;
  audit.lanes = report.lanes;
  return audit;
}

absl::StatusOr<JobDigest> DigestOf(const Journal& journal, const std::string& root,
                                   const KnownJobPtr& known, std::optional<int64_t> step,
                                   const std::stop_token& stop) {
  const JobJournal& job = known->status.job;
  MUSTER_ASSIGN_OR_RETURN(const Catalogue::Listing listing, Catalogue(journal.kv()).List(job.id));
  for (auto m = listing.manifests.rbegin(); m != listing.manifests.rend(); ++m) {
    if (!OnAncestry(job.lineages, m->lineage, m->step) || (step && m->step != Step(*step)))
      continue;
    JobDigest digest{m->lineage.value(), m->step.value(), job.ending.digest};
    const bool is_final =
        !job.ending.digest.empty() && m->step.value() == Describe(known, 0).digest_step;
    if (is_final) return digest;
    MUSTER_ASSIGN_OR_RETURN(
        digest.digest, muster::Digest(*CheckpointFilesIn(CheckpointDir(root, job.id)), *m, stop));
    return digest;
  }
  return absl::NotFoundError(
      step ? absl::StrCat("job ", job.id, " has no checkpoint of step ", *step)
           : absl::StrCat("job ", job.id, " has no checkpoint", Ended(job.phase) ? "" : " yet"));
}

namespace {

// "lineage-2-step-140/worker-0.segment": the checkpoint that it is of, and nothing where it is none
// of the files that a reader needs.
std::optional<CheckpointPlace> PlaceOfFile(const std::string& file) {
  const size_t slash = file.find('/');
  if (slash == std::string::npos || !IsSafeRelativeName(file)) return std::nullopt;
  const absl::string_view name = absl::string_view(file).substr(slash + 1);
  const bool is_known = name == kManifestFile || name == kKeptFile || name == kMeasureFile ||
                        absl::EndsWith(name, kSegmentSuffix);
  if (!is_known) return std::nullopt;
  return PlaceOfFolder(file.substr(0, slash));
}

}  // namespace

absl::Status CheckFileQuery(FileQuery& query) {
  if (query.bytes == 0) query.bytes = kMostFileBytes;
  if (query.bytes < 0 || query.bytes > kMostFileBytes)
    return FieldError("", "bytes", absl::StrCat("must be 1 to ", kMostFileBytes));
  if (query.offset < 0) return FieldError("", "offset", "must be the number of a byte");
  if (PlaceOfFile(query.file)) return absl::OkStatus();
  return FieldError("", "file",
                    absl::StrCat("must be lineage-L-step-S/", kManifestFile, ", or ", kKeptFile,
                                 ", ", kMeasureFile, " or a segment of that folder"));
}

absl::StatusOr<CheckpointPlace> PlaceOfCheckpoint(const std::string& checkpoint,
                                                  const std::string& field) {
  if (const std::optional<CheckpointPlace> place = PlaceOfFolder(checkpoint)) return *place;
  return FieldError("", field,
                    absl::StrCat("'", Cut(Printable(checkpoint)),
                                 "' is no checkpoint; they are called lineage-L-step-S"));
}

namespace {

absl::Status NoSuchCheckpoint(const std::string& job, const CheckpointPlace& place) {
  return absl::NotFoundError(absl::StrCat("job ", job, " has no checkpoint of step ",
                                          place.second.value(), ", lineage ", place.first.value(),
                                          ", any more, or none yet"));
}

// Those that are kept by a name alone, or were left out by a rewind, only the catalogue knows.
absl::Status CheckIsCommitted(const Journal& journal, const JobStatus& status,
                              const CheckpointPlace& place) {
  const auto& known = status.checkpoints;
  if (std::find(known.begin(), known.end(), place) != known.end()) return absl::OkStatus();
  MUSTER_ASSIGN_OR_RETURN(const bool is_there,
                          Catalogue(journal.kv()).Has(status.job.id, place.first, place.second));
  return is_there ? absl::OkStatus() : NoSuchCheckpoint(status.job.id, place);
}

// Which one of them is the best of those that the job may go on from; nothing: it asks for none,
// none was measured, or a measure cannot be read, so that nobody knows.
absl::StatusOr<std::optional<CheckpointPlace>> BestPlace(const CheckpointFiles& files,
                                                         const JobJournal& job,
                                                         const std::vector<Manifest>& all) {
  const BestRule rule = BestRuleOf(job.spec);
  if (!rule.wanted()) return std::nullopt;  // most jobs: no manifest is copied for them
  std::vector<Manifest> usable;
  for (const Manifest& m : all)
    if (OnAncestry(job.lineages, m.lineage, m.step)) usable.push_back(m);
  MUSTER_ASSIGN_OR_RETURN(const BestFound found, FindBest(files, usable, rule));
  if (!found.best || !found.unread.empty()) return std::nullopt;
  const Manifest& best = usable[*found.best];
  return CheckpointPlace(best.lineage, best.step);
}

SavedCheckpoint DescribeCheckpoint(const CheckpointFiles& files, const JobStatus& status,
                                   const Manifest& manifest) {
  const JobJournal& job = status.job;
  const CheckpointPlace place(manifest.lineage, manifest.step);
  const SurveyedCheckpoint found = std::move(SurveyCheckpoints(files, {place}).front());
  SavedCheckpoint saved{.checkpoint = CheckpointFolder(manifest.lineage, manifest.step),
                        .lineage = manifest.lineage.value(),
                        .step = manifest.step.value()};
  constexpr int64_t kMillisPerSecond = 1000;
  const uint64_t samples = job.environment ? job.environment->samples : 0;
  if (IsSampleCount(samples)) saved.epoch = saved.step / StepsPerEpoch(job.spec.training, samples);
  saved.bytes = manifest.total_bytes;
  saved.unix_ms = manifest.unix_seconds * kMillisPerSecond;
  saved.complete = found.is_complete();
  saved.why = Printable(found.why_not);
  saved.finite = IsFinite(manifest);
  saved.name = found.name;
  if (found.measure) {
    saved.measure = found.measure->measure;
    saved.value = found.measure->value;
  }
  saved.left_out = !OnAncestry(job.lineages, manifest.lineage, manifest.step);
  saved.deleting = status.removing.contains(place);
  return saved;
}

}  // namespace

// One that a prune takes meanwhile is told as not complete: it was there when the list was begun.
absl::StatusOr<SavedCheckpoints> ListCheckpoints(const Journal& journal, const std::string& root,
                                                 const JobStatus& status,
                                                 const std::string& page_token,
                                                 const std::stop_token& stop) {
  std::optional<CheckpointPlace> after;
  if (!page_token.empty()) {
    MUSTER_ASSIGN_OR_RETURN(after, PlaceOfCheckpoint(page_token, "page_token"));
  }
  const std::string& id = status.job.id;
  MUSTER_ASSIGN_OR_RETURN(const Catalogue::Listing listing, Catalogue(journal.kv()).List(id));
  const auto files = CheckpointFilesIn(CheckpointDir(root, id));
  MUSTER_ASSIGN_OR_RETURN(const std::optional<CheckpointPlace> best,
                          BestPlace(*files, status.job, listing.manifests));
  SavedCheckpoints page;
  for (const Manifest& manifest : listing.manifests) {
    const CheckpointPlace place(manifest.lineage, manifest.step);
    if (after && place <= *after) continue;
    if (stop.stop_requested()) return absl::CancelledError("a list of checkpoints was stopped");
    if (page.checkpoints.size() == kSavedCheckpointsPerPage) {
      page.next_page_token = page.checkpoints.back().checkpoint;
      return page;
    }
    SavedCheckpoint& saved =
        page.checkpoints.emplace_back(DescribeCheckpoint(*files, status, manifest));
    saved.best = best == place;
  }
  return page;
}

namespace {

// That one of all that are committed.
absl::StatusOr<SavedCheckpoint> SavedAmong(const std::vector<Manifest>& all,
                                           const CheckpointFiles& files, const JobStatus& status,
                                           const CheckpointPlace& place) {
  for (const Manifest& manifest : all) {
    if (CheckpointPlace(manifest.lineage, manifest.step) != place) continue;
    SavedCheckpoint saved = DescribeCheckpoint(files, status, manifest);
    MUSTER_ASSIGN_OR_RETURN(const std::optional<CheckpointPlace> best,
                            BestPlace(files, status.job, all));
    saved.best = best == place;
    return saved;
  }
  return NoSuchCheckpoint(status.job.id, place);
}

}  // namespace

absl::StatusOr<SavedCheckpoint> SavedAt(const Journal& journal, const std::string& root,
                                        const JobStatus& status, const CheckpointPlace& place) {
  const std::string& id = status.job.id;
  MUSTER_ASSIGN_OR_RETURN(const Catalogue::Listing listing, Catalogue(journal.kv()).List(id));
  return SavedAmong(listing.manifests, *CheckpointFilesIn(CheckpointDir(root, id)), status, place);
}

// Two at once give no name twice: both are on the thread of queries.
absl::StatusOr<SavedCheckpoint> KeepCheckpoint(const Journal& journal, const std::string& root,
                                               const JobStatus& status,
                                               const CheckpointPlace& place,
                                               const std::string& name) {
  const std::string& id = status.job.id;
  const auto files = CheckpointFilesIn(CheckpointDir(root, id));
  MUSTER_ASSIGN_OR_RETURN(const Catalogue::Listing listing, Catalogue(journal.kv()).List(id));
  MUSTER_ASSIGN_OR_RETURN(SavedCheckpoint saved,
                          SavedAmong(listing.manifests, *files, status, place));
  const auto& [lineage, step] = place;
  if (name.empty()) {
    MUSTER_RETURN_IF_ERROR(files->Remove(KeptFileOf(lineage, step)));
    saved.name.clear();
    return saved;
  }
  if (!IsNewKeptName(name))
    return FieldError("", "name",
                      absl::StrCat("'", Cut(Printable(name)),
                                   "' is no name of a checkpoint; allowed: ", kNewKeptNameRule));
  if (saved.deleting)
    return absl::NotFoundError(
        absl::StrCat("the checkpoint of step ", step.value(), " is being deleted"));
  if (!saved.complete)
    return absl::FailedPreconditionError(
        absl::StrCat("the checkpoint of step ", step.value(), " is not complete: ", saved.why));
  for (const Manifest& other : listing.manifests) {
    if (CheckpointPlace(other.lineage, other.step) == place) continue;
    const absl::StatusOr<std::string> held = ReadKeptName(*files, other.lineage, other.step);
    if (absl::IsUnavailable(held.status())) return held.status();
    if (held.ok() && *held == name)
      return absl::AlreadyExistsError(absl::StrCat("the checkpoint of step ", other.step.value(),
                                                   " is kept as '", name, "'; take another name"));
  }
  MUSTER_RETURN_IF_ERROR(muster::KeepCheckpoint(*files, lineage, step, name));
  saved.name = name;
  return saved;
}

// The folder holds nothing that is not of this job; what is asked for is opened anew each time, so
// that nothing stays open for somebody who went away.
absl::StatusOr<FilePart> ReadFilePart(const Journal& journal, const std::string& root,
                                      const JobStatus& status, const FileQuery& query) {
  const CheckpointPlace place = *PlaceOfFile(query.file);
  MUSTER_RETURN_IF_ERROR(CheckIsCommitted(journal, status, place));
  const auto file = CheckpointFilesIn(CheckpointDir(root, status.job.id))->Open(query.file);
  if (absl::IsNotFound(file.status())) {
    const auto lacks = [&](const char* what) {
      return absl::NotFoundError(
          absl::StrCat("the checkpoint of step ", place.second.value(), what));
    };
    if (absl::EndsWith(query.file, kKeptFile)) return lacks(" is kept by no name");
    if (absl::EndsWith(query.file, kMeasureFile)) return lacks(" was not measured");
    return NoSuchCheckpoint(status.job.id, place);
  }
  MUSTER_RETURN_IF_ERROR(file.status());
  const auto offset = static_cast<uint64_t>(query.offset);
  FilePart part{.bytes = {}, .of = (*file)->size()};
  if (offset >= part.of) return part;
  part.bytes.resize(std::min(part.of - offset, static_cast<uint64_t>(query.bytes)));
  MUSTER_RETURN_IF_ERROR((*file)->ReadAt(offset, part.bytes.data(), part.bytes.size()));
  return part;
}

namespace {

LedgerLane DescribeLane(const TrainingSpec& training, uint64_t n, const StepRecord& record,
                        size_t lane) {
  const LaneId id(static_cast<int32_t>(lane));
  const MemberId& holder = record.lane_holders[lane];
  return {.lane = id.value(),
          .worker = holder.name,
          .incarnation = ToHex(holder.incarnation),
          .count = LaneSamples(training, n, record.step, id).count};
}

LedgerStep DescribeStep(const StepRecord& record) {
  return {.step = record.step.value(),
          .epoch = record.samples.epoch,
          .lineage = record.lineage.value(),
          .view = record.view.value(),
          .weight = record.weight,
          .loss = MeanLoss(record),
          .skipped = record.skipped,
          .lanes = {}};
}

std::vector<uint64_t> LeftOutIds(const TrainingSpec& training, uint64_t n,
                                 const StepRecord& record) {
  if (record.left_out.empty()) return {};
  const EpochOrder order(training, record.samples.epoch, n);
  std::vector<uint64_t> ids;
  for (const uint64_t position : record.left_out)
    ids.push_back(order.At(record.samples.first + position));
  return ids;
}

// So much of an answer is one step: what it may hold, whatever its record says.
size_t SizeOf(const TrainingSpec& training, uint64_t n, Step step) {
  return StepSamples(training, n, step).count + static_cast<size_t>(training.lanes);
}

LedgerStep WithAllLanes(const TrainingSpec& training, uint64_t n, const StepRecord& record) {
  LedgerStep step = DescribeStep(record);
  step.left_out = LeftOutIds(training, n, record);
  const bool with_ids = SizeOf(training, n, record.step) <= kMostLedgerEntries;
  const size_t lanes = std::min(record.lane_holders.size(), static_cast<size_t>(training.lanes));
  for (size_t lane = 0; lane < lanes; ++lane) {
    LedgerLane& of = step.lanes.emplace_back(DescribeLane(training, n, record, lane));
    if (!with_ids) continue;
    const LaneId id(of.lane);
    of.samples = SampleIds(training, n, LaneSamples(training, n, record.step, id));
  }
  return step;
}

// What a question about the ledger is answered from.
struct LedgerSource {
  const Journal& journal;
  const JobStatus& status;
  const std::vector<LineagePart> history = HistoryOf(status.job.lineages);
  const TrainingSpec& training = status.job.spec.training;
  const uint64_t samples = SampleCountOf(status);
};

absl::StatusOr<JobLedger> ReadSteps(const LedgerSource& source, const LedgerQuery& query,
                                    const std::stop_token& stop) {
  JobLedger ledger;
  size_t entries = 0;
  const auto take = [&](const RecordedStep& recorded) {
    const StepRecord& record = recorded.record;
    entries += SizeOf(source.training, source.samples, record.step);
    const bool fits = ledger.steps.empty() || entries <= kMostLedgerEntries;
    if (!fits || ledger.steps.size() == static_cast<size_t>(query.limit)) {
      ledger.next = record.step.value();
      return false;
    }
    ledger.steps.push_back(WithAllLanes(source.training, source.samples, record));
    return true;
  };
  MUSTER_RETURN_IF_ERROR(source.journal.ScanHistory(
      source.status.job.id, source.history, Step(query.from), source.status.step, take, stop));
  return ledger;
}

// Once an epoch: where it is follows from the specification, who had it from the record.
absl::StatusOr<JobLedger> ReadUses(const LedgerSource& source, const LedgerQuery& query,
                                   const std::stop_token& stop) {
  if (*query.sample >= source.samples)
    return FieldError("", "sample", absl::StrCat("must be 0 to ", source.samples - 1));
  JobLedger ledger;
  for (int64_t epoch = query.from / StepsPerEpoch(source.training, source.samples);; ++epoch) {
    const SamplePlace place = PlaceOfSample(source.training, source.samples, epoch, *query.sample);
    if (place.step >= source.status.step) return ledger;
    if (place.step < Step(query.from)) continue;
    if (ledger.steps.size() == static_cast<size_t>(query.limit)) {
      ledger.next = place.step.value();
      return ledger;
    }
    MUSTER_ASSIGN_OR_RETURN(const std::vector<RecordedStep> found,
                            source.journal.RecordsIn(source.status.job.id, source.history,
                                                     place.step, place.step + 1, 1, stop));
    const auto lane = static_cast<size_t>(place.lane.value());
    if (found.empty() || found[0].record.step != place.step ||
        lane >= found[0].record.lane_holders.size())
      return absl::DataLossError(
          absl::StrCat("step ", place.step.value(), " has no record with that lane"));
    LedgerStep step = DescribeStep(found[0].record);
    step.lanes.push_back(DescribeLane(source.training, source.samples, found[0].record, lane));
    step.lanes[0].samples = {*query.sample};
    const std::vector<uint64_t> left_out =
        LeftOutIds(source.training, source.samples, found[0].record);
    if (std::find(left_out.begin(), left_out.end(), *query.sample) != left_out.end())
      step.left_out = {*query.sample};
    ledger.steps.push_back(std::move(step));
  }
}

}  // namespace

absl::Status CheckHistoryQuery(const HistoryQuery& query) {
  if (query.limit < 0 || query.limit > kMostHistorySteps)
    return FieldError("", "limit", absl::StrCat("must be 1 to ", kMostHistorySteps));
  if (query.from < 0) return FieldError("", "from", "must be the number of a step");
  if (query.lineage < 0) return FieldError("", "lineage", "must be the number of a lineage");
  return absl::OkStatus();
}

absl::Status CheckLedgerQuery(LedgerQuery& query) {
  if (query.limit < 0 || query.limit > kMostLedgerSteps)
    return FieldError("", "limit", absl::StrCat("must be 1 to ", kMostLedgerSteps));
  if (query.from < 0) return FieldError("", "from", "must be the number of a step");
  if (query.limit == 0) query.limit = kLedgerStepsPerPage;
  return absl::OkStatus();
}

absl::StatusOr<JobLedger> ReadLedger(const Journal& journal, const JobStatus& status,
                                     LedgerQuery query, const std::stop_token& stop) {
  // With a step that is recorded no number below can overflow.
  const bool is_over = Step(query.from) >= status.step;
  if (is_over || status.job.lineages.empty() || !status.job.environment)
    return JobLedger{.parent = ParentOf(status.job.spec)};
  const LedgerSource source{journal, status};
  // That of an adopted job begins later.
  query.from = std::max(query.from, source.history.front().first.value());
  MUSTER_ASSIGN_OR_RETURN(JobLedger ledger, query.sample ? ReadUses(source, query, stop)
                                                         : ReadSteps(source, query, stop));
  ledger.data_left_out = DataLeftOut(*status.job.environment);
  ledger.parent = ParentOf(status.job.spec);
  ledger.plugins = PluginUsesOf(status.job);
  return ledger;
}

absl::Status CheckLogQuery(LogQuery& query) {
  if (query.tail < 0 || query.tail > kMostLogLines)
    return FieldError("", "tail", absl::StrCat("must be 1 to ", kMostLogLines));
  if (!query.member.empty() && !IsMemberName(query.member))
    return FieldError("", "member", absl::StrCat("must be ", MemberNameRule()));
  if (query.tail == 0) query.tail = kLogLines;
  return absl::OkStatus();
}

namespace {

// The newest lines that are whole, printable, at most so many and together at most so many bytes,
// each after `before`.
std::string LastLines(const KeptLog& log, const std::string& before, int64_t most_lines,
                      size_t most_bytes) {
  std::vector<std::string> lines;
  size_t bytes = 0;
  absl::string_view rest = log.text;
  if (!rest.empty() && rest.back() == '\n') rest.remove_suffix(1);
  bool is_more = !log.text.empty();
  while (is_more && static_cast<int64_t>(lines.size()) < most_lines) {
    const size_t end = rest.rfind('\n');
    is_more = end != absl::string_view::npos;
    if (!is_more && log.is_cut) break;  // the beginning of that line is missing
    const absl::string_view line = is_more ? rest.substr(end + 1) : rest;
    lines.push_back(absl::StrCat(before, Cut(Printable(line), kMostLinesBytes), "\n"));
    bytes += lines.back().size();
    if (bytes > most_bytes) {
      lines.pop_back();
      break;
    }
    rest = rest.substr(0, is_more ? end : 0);
  }
  std::reverse(lines.begin(), lines.end());
  return absl::StrJoin(lines, "");
}

}  // namespace

absl::StatusOr<LogTail> ReadLogs(const std::string& logs, const std::string& job,
                                 const LogQuery& query) {
  const std::vector<std::string> members = MembersWithLogs(logs, job);
  if (!query.member.empty()) {
    if (std::find(members.begin(), members.end(), query.member) == members.end())
      return absl::NotFoundError(absl::StrCat(
          "job ", job, " has no log of a member ", query.member, "; there are logs of ",
          members.empty() ? "none" : absl::StrJoin(members, ", ")));
    return LogTail{LastLines(ReadKeptLog(logs, job, query.member, kMostLogAnswerBytes), "",
                             query.tail, kMostLogAnswerBytes)};
  }
  LogTail tail;
  for (const std::string& member : members) {
    const size_t part = kMostLogAnswerBytes / members.size();
    tail.text += LastLines(ReadKeptLog(logs, job, member, part), member + ": ", query.tail, part);
  }
  return tail;
}

namespace {

// How far a follower is: by member. "1~worker-0~0123456789abcdef~1048576~worker-1…": no character
// of it is escaped in a URL, nor part of the name of a member. The first word is the form's.
using LogPlacesRead = std::map<std::string, LogPlace>;
constexpr char kPlaceSeparator = '~';
constexpr absl::string_view kPlacesForm = "1";

std::string PlacesText(const LogPlacesRead& places) {
  std::string text(kPlacesForm);
  for (const auto& [member, place] : places)
    absl::StrAppend(&text, "~", member, "~", absl::Hex(place.log, absl::kZeroPad16), "~", place.at);
  return text;
}

absl::StatusOr<LogPlacesRead> PlacesIn(const std::string& text) {
  const absl::Status bad =
      FieldError("", "after", "is not what an answer said in `next`; leave it out to begin anew");
  LogPlacesRead places;
  if (text.empty()) return places;
  if (text.size() > kMostFollowedBytes) return bad;
  const std::vector<std::string> words = absl::StrSplit(text, kPlaceSeparator);
  if (words[0] != kPlacesForm || words.size() % 3 != 1) return bad;
  for (size_t i = 1; i < words.size(); i += 3) {
    LogPlace place;
    const bool is_place = IsMemberName(words[i]) && words[i + 1].size() == 16 &&
                          absl::SimpleHexAtoi(words[i + 1], &place.log) &&
                          ParseDigits(words[i + 2], &place.at) && !words[i + 2].empty();
    if (!is_place || !places.emplace(words[i], place).second) return bad;
  }
  return places;
}

// A line takes more of an answer than its bytes: a page of line ends alone would take a hundred
// megabytes while it is made. So it has no more lines than if each had so many bytes.
void KeepLines(size_t most, LogSpan& span) {
  size_t end = 0;
  for (size_t lines = 0; lines < most && end < span.text.size(); ++lines) {
    const size_t at = span.text.find('\n', end);
    end = at == std::string::npos ? span.text.size() : at + 1;
  }
  if (end == span.text.size()) return;
  span.next.at -= static_cast<int64_t>(span.text.size() - end);
  span.text.resize(end);
  span.is_more = true;
}

void AddLines(const std::string& member, const LogSpan& span, std::vector<LogLine>& lines) {
  if (span.is_other)
    lines.push_back({member, "... what was printed before this is not kept any more"});
  if (span.left_out > 0) lines.push_back({member, GapText({.bytes = span.left_out})});
  absl::string_view rest = span.text;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    lines.push_back({member, Cut(Printable(rest.substr(0, end)), kMostLinesBytes)});
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
}

}  // namespace

absl::Status CheckFollowQuery(const FollowQuery& query) {
  LogQuery as_tail{query.member, query.tail};
  MUSTER_RETURN_IF_ERROR(CheckLogQuery(as_tail));
  return PlacesIn(query.after).status();
}

absl::StatusOr<LogPage> ReadLogPage(const std::string& logs, const std::string& job,
                                    const FollowQuery& query, bool ends) {
  MUSTER_ASSIGN_OR_RETURN(LogPlacesRead places, PlacesIn(query.after));
  std::vector<std::string> members = MembersWithLogs(logs, job);
  if (!query.member.empty()) {
    if (ends && std::find(members.begin(), members.end(), query.member) == members.end())
      return absl::NotFoundError(absl::StrCat(
          "job ", job, " has no log of a member ", query.member, "; there are logs of ",
          members.empty() ? "none" : absl::StrJoin(members, ", ")));
    members = {query.member};
  }
  if (members.size() > kMostFollowedMembers)
    return FieldError(
        "", "member",
        absl::StrCat("is needed: ", members.size(), " members of job ", job, " have a log, and ",
                     kMostFollowedMembers, " may be followed at once; name one of them"));
  LogPage page;
  bool is_more = false;
  const size_t part = kMostLogPageBytes / std::max<size_t>(1, members.size());
  for (const std::string& member : members) {
    std::optional<LogPlace> after;
    if (const auto known = places.find(member); known != places.end()) after = known->second;
    if (query.after.empty() && query.tail > 0)
      after = PlaceOfTail(logs, job, member, query.tail, kMostLogAnswerBytes / members.size());
    std::optional<LogSpan> span = ReadLogAfter(logs, job, member, after, part, ends);
    if (!span) continue;
    KeepLines(std::max<size_t>(1, part / kLeastBytesOfLine), *span);
    AddLines(member, *span, page.lines);
    places[member] = span->next;
    is_more |= span->is_more;
  }
  page.next = PlacesText(places);
  if (page.next.size() > kMostFollowedBytes)
    return FieldError("", "member", "is needed: the names of all members are too long together");
  page.over = ends && !is_more;
  return page;
}

}  // namespace muster::coordinator
