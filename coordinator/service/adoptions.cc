#include "coordinator/service/adoptions.h"

#include <chrono>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/runtime/checkpoints.h"
#include "coordinator/runtime/once.h"
#include "lib/base/clock.h"
#include "lib/base/status.h"
#include "lib/log/log.h"

namespace muster::coordinator {
namespace {

constexpr size_t kMostUnderWay = 16;
constexpr size_t kMostKept = 64;  // with those that have ended

Time Now() { return RealClock().Now(); }

absl::Status ForPeople(const absl::Status& why) {
  return absl::IsCancelled(why) ? ShuttingDown() : why;
}

}  // namespace

Adoptions::Adoptions(Driver& driver, const Journal& journal, std::string root, MayHave may_have)
    : driver_(driver), journal_(journal), root_(std::move(root)), may_have_(std::move(may_have)) {}

void Adoptions::Begin(const AdoptionSource& source, JobApi::Reply<AdoptionInfo> reply) {
  bool is_new = false;
  const absl::StatusOr<RecordPtr> opened = Open(source, is_new);
  if (!opened.ok()) return reply(opened.status());
  const RecordPtr& record = *opened;
  const auto plan = [this, record](const std::stop_token& stop) { Plan(record, stop); };
  if (!is_new || source.id.empty()) {
    if (is_new) RunLong(record, plan);
    return reply(Find(record->info.adoption));
  }
  // Before anything is read, so that an id that is taken is refused at once.
  const auto reserve = [this,
                        record](const KnownJobs& jobs) -> absl::StatusOr<std::optional<Input>> {
    const std::string& id = record->source.id;
    if (FindJob(jobs, id).ok())
      return absl::AlreadyExistsError(
          absl::StrCat("job ", id, " exists already; adopt this one under another id"));
    MUSTER_RETURN_IF_ERROR(Reserve(record, id));
    return std::nullopt;
  };
  driver_.Change(reserve, [this, record, plan,
                           reply = std::move(reply)](const absl::StatusOr<KnownJobs>& jobs) {
    if (!jobs.ok()) {
      Fail(record, jobs.status());
      return reply(jobs.status());
    }
    RunLong(record, plan);
    reply(Find(record->info.adoption));
  });
}

absl::StatusOr<AdoptionInfo> Adoptions::Find(const std::string& adoption) const {
  const MutexLock lock(mutex_);
  for (const auto& [number, record] : records_)
    if (record->info.adoption == adoption) return InfoOf(*record);
  return absl::NotFoundError(absl::StrCat(
      "there is no adoption ", adoption, "; where the coordinator has started again since it ",
      "began, look whether its job is there, and adopt it again if it is not"));
}

absl::Status Adoptions::CheckFree(const std::string& job) const {
  const MutexLock lock(mutex_);
  if (const auto by = reserved_.find(job); by != reserved_.end())
    return absl::AlreadyExistsError(absl::StrCat("job ", job, " is being adopted (adoption ",
                                                 by->second->info.adoption,
                                                 "); take another id, or wait for its end"));
  if (!left_behind_.contains(job)) return absl::OkStatus();
  return absl::AlreadyExistsError(absl::StrCat(
      "what an adoption copied for job ", job,
      " could not be removed: take another id, or start the coordinator again, which removes it"));
}

// ---- the record

bool Adoptions::IsUnderWay(const Record& record) {
  return record.info.state == kAdoptionWaits || record.info.state == kAdoptionCopies;
}

AdoptionInfo Adoptions::InfoOf(const Record& record) const {
  AdoptionInfo info = record.info;
  if (record.began == Time()) return info;
  const Time until = IsUnderWay(record) ? Now() : record.ended;
  info.seconds = std::chrono::duration<double>(until - record.began).count();
  if (info.seconds > 0) info.bytes_per_second = static_cast<double>(info.bytes) / info.seconds;
  if (IsUnderWay(record) && info.bytes > 0 && info.bytes_per_second > 0)
    info.seconds_left = static_cast<double>(info.of_bytes - info.bytes) / info.bytes_per_second;
  return info;
}

// One that is under way for the same folder and id is this one: whoever asked may have missed the
// answer.
absl::StatusOr<Adoptions::RecordPtr> Adoptions::Open(const AdoptionSource& source, bool& is_new) {
  const MutexLock lock(mutex_);
  size_t under_way = 0;
  for (const auto& [number, record] : records_) {
    if (!IsUnderWay(*record)) continue;
    ++under_way;
    if (record->source.folder == source.folder && record->source.id == source.id) return record;
  }
  if (under_way >= kMostUnderWay)
    return absl::UnavailableError(
        absl::StrCat(kMostUnderWay, " adoptions are under way already; retry later"));
  for (auto it = records_.begin(); it != records_.end() && records_.size() >= kMostKept;)
    it = IsUnderWay(*it->second) ? std::next(it) : records_.erase(it);
  is_new = true;
  auto record = std::make_shared<Record>();
  record->number = ++last_;
  record->source = source;
  record->info.adoption = absl::StrCat(journal_.term().value(), "-", record->number);
  record->info.folder = source.folder;
  record->info.job = source.id;
  records_[record->number] = record;
  return record;
}

void Adoptions::Change(const RecordPtr& record, const std::function<void(AdoptionInfo&)>& change) {
  const MutexLock lock(mutex_);
  change(record->info);
}

// On the driver's thread. What an earlier one left behind is removed before this one copies.
absl::Status Adoptions::Reserve(const RecordPtr& record, const std::string& job) {
  const MutexLock lock(mutex_);
  RecordPtr& by = reserved_[job];
  if (by != nullptr && by != record)
    return absl::AlreadyExistsError(
        absl::StrCat("job ", job, " is being adopted already (adoption ", by->info.adoption,
                     "); adopt this one under ", "another id"));
  by = record;
  record->info.job = job;
  return absl::OkStatus();
}

void Adoptions::Release(const RecordPtr& record) {
  const MutexLock lock(mutex_);
  const auto by = reserved_.find(record->info.job);
  if (by != reserved_.end() && by->second == record) reserved_.erase(by);
}

void Adoptions::End(const RecordPtr& record, const std::function<void(AdoptionInfo&)>& change) {
  const MutexLock lock(mutex_);
  record->ended = Now();
  change(record->info);
}

// ---- what it does, one after the other, none of which waits for another thread

void Adoptions::RunLong(const RecordPtr& record, Background::Call call) {
  if (!driver_.RunLong(std::move(call))) Fail(record, ShuttingDown());
}

void Adoptions::Plan(const RecordPtr& record, const std::stop_token& stop) {
  if (stop.stop_requested()) return Fail(record, ShuttingDown());
  absl::StatusOr<AdoptionPlan> read = PlanAdoption(record->source, journal_.cluster(), root_);
  if (!read.ok()) return Fail(record, read.status());
  const auto plan = std::make_shared<const AdoptionPlan>(*std::move(read));
  const auto reserve = [this, record,
                        plan](const KnownJobs& jobs) -> absl::StatusOr<std::optional<Input>> {
    MUSTER_RETURN_IF_ERROR(may_have_(jobs, plan->id, plan->spec));
    MUSTER_RETURN_IF_ERROR(Reserve(record, plan->id));
    return std::nullopt;
  };
  driver_.Change(reserve, [this, record, plan](const absl::StatusOr<KnownJobs>& jobs) {
    if (!jobs.ok()) return Fail(record, jobs.status());
    RunLong(record, [this, record, plan](const std::stop_token& copy_stop) {
      Copy(record, *plan, copy_stop);
    });
  });
}

void Adoptions::Copy(const RecordPtr& record, const AdoptionPlan& plan,
                     const std::stop_token& stop) {
  {
    const MutexLock lock(mutex_);
    record->began = Now();
    record->info.state = kAdoptionCopies;
  }
  const auto progress = [&](uint64_t bytes, uint64_t of_bytes) {
    Change(record, [&](AdoptionInfo& info) {
      info.bytes = bytes;
      info.of_bytes = of_bytes;
    });
  };
  absl::StatusOr<AdoptedCopy> made =
      CopyAdopted(plan, driver_.OurCatalogue(), journal_.cluster(),
                  *CheckpointFilesIn(CheckpointDir(root_, plan.id)), progress, stop);
  if (!made.ok()) return Drop(record, made.status());
  made->adopt.owner = record->source.owner;
  made->adopt.accepts = record->source.accepts;
  const auto copy = std::make_shared<const AdoptedCopy>(*std::move(made));
  // Once it is decided the job has the copy, whatever becomes of the write.
  const auto decided = std::make_shared<bool>(false);
  const auto decide = [this, decided,
                       copy](const KnownJobs& jobs) -> absl::StatusOr<std::optional<Input>> {
    MUSTER_RETURN_IF_ERROR(may_have_(jobs, copy->adopt.id, copy->adopt.spec));
    *decided = true;
    return copy->adopt;
  };
  driver_.Change(decide, [this, record, decided, copy](const absl::StatusOr<KnownJobs>& jobs) {
    if (jobs.ok()) return Finish(record, *copy);
    if (*decided) return Fail(record, jobs.status());
    RunLong(record,
            [this, record, why = jobs.status()](const std::stop_token&) { Drop(record, why); });
  });
}

void Adoptions::Finish(const RecordPtr& record, const AdoptedCopy& copy) {
  for (const std::string& why : copy.passed_over)
    LogWarning("job %s was adopted without a newer checkpoint: %s", copy.adopt.id, why);
  {
    const MutexLock lock(mutex_);
    reserved_.erase(copy.adopt.id);
    left_behind_.erase(copy.adopt.id);
  }
  End(record, [&](AdoptionInfo& info) {
    info.state = kAdoptionDone;
    info.step = copy.adopt.manifest.step.value();
    info.passed_over = copy.passed_over;
  });
}

// Without a job the copy would be found by the next one of that id.
void Adoptions::Drop(const RecordPtr& record, const absl::Status& why) {
  const std::string& job = record->info.job;
  Catalogue catalogue = driver_.OurCatalogue();
  const absl::Status removed =
      catalogue.RemoveAll(job, *CheckpointFilesIn(CheckpointDir(root_, job)));
  if (!removed.ok()) LogWarning("a copy for job %s stays: %s", job, removed.message());
  const absl::StatusOr<std::set<std::string>> left = catalogue.Jobs();
  {
    const MutexLock lock(mutex_);
    left_behind_.erase(job);
    if (!left.ok() || left->contains(job)) left_behind_.insert(job);
  }
  Fail(record, why);
}

// Nothing is left of what was copied; or the driver ends, and the next start looks whether the copy
// has a job.
void Adoptions::Fail(const RecordPtr& record, const absl::Status& why) {
  Release(record);  // before anybody is told of the end
  End(record, [&](AdoptionInfo& info) {
    info.state = kAdoptionFailed;
    info.error = ForPeople(why);
  });
}

}  // namespace muster::coordinator
