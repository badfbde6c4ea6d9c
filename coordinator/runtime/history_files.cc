#include "coordinator/runtime/history_files.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "coordinator/runtime/history.h"
#include "lib/base/status.h"
#include "lib/base/whole_file.h"
#include "lib/domain/job_id.h"
#include "lib/log/log.h"

namespace muster::coordinator {
namespace {

constexpr Duration kPeriod = std::chrono::seconds(1);
// A line is much shorter: the last whole one is in so much of the end.
constexpr int64_t kTail = 16 * 1024;
// The step and the lineage at the begin of a line are in so much of it.
constexpr size_t kMostPlaceBytes = 80;

constexpr char kHistory[] = "/metrics.jsonl";
// Which job the history of a folder is of: after a deletion another one may take its id.
constexpr char kHistoryOf[] = "/history_of";
constexpr size_t kMostNoteBytes = 256;

// What stands there, before the number of the job's first start. With the cluster in it nobody
// takes away what is another's.
std::string BeginOfNote(const Journal& journal) { return absl::StrCat(journal.cluster(), " "); }
std::string NoteOf(const Journal& journal, const JobJournal& job) {
  return absl::StrCat(BeginOfNote(journal), job.first_start.value(), "\n");
}

// What is not there is no error.
absl::Status RemoveFile(const std::string& path) {
  std::error_code error;
  std::filesystem::remove(path, error);
  return error ? FileError(error.value(), "remove", path) : absl::OkStatus();
}

// One of `before` is not there any more.
bool LacksSome(const KnownJobs& before, const KnownJobs& now) {
  return std::any_of(before.begin(), before.end(), [&](const KnownJobPtr& known) {
    return !FindJob(now, known->status.job.id).ok();
  });
}

}  // namespace

absl::Status HistoryFile::FindEnd() {
  next_ = lineage_ = 0;
  tells_last_state_ = false;
  file_.SetEnd(0);
  MUSTER_ASSIGN_OR_RETURN(const FollowedFile::Tail tail, file_.ReadTail(kTail));
  const size_t last = tail.bytes.rfind('\n');
  if (last == std::string::npos) return absl::OkStatus();  // nothing whole
  file_.SetEnd(tail.start + static_cast<int64_t>(last) + 1);
  const size_t before = last == 0 ? std::string::npos : tail.bytes.rfind('\n', last - 1);
  const size_t first = before == std::string::npos ? 0 : before + 1;
  const auto place = PlaceInHistory(absl::string_view(tail.bytes).substr(first, last - first));
  // Of a line that is none of ours nothing is known: all comes again behind it.
  if (!place) return absl::OkStatus();
  tells_last_state_ = place->last_state.has_value();
  next_ = place->last_state.value_or(place->step + 1);
  lineage_ = place->lineage;
  return absl::OkStatus();
}

// Our lines are in the order of their steps up to that one. It is looked for from the start: a
// rewind is rare, and the whole file is read faster than the steps are done again.
absl::Status HistoryFile::CutBefore(int64_t step) {
  std::string head;  // of a line, as much as says its place
  int64_t start = 0;
  for (int64_t at = 0; at < file_.end();) {
    MUSTER_ASSIGN_OR_RETURN(const std::string block, file_.Read(at, kTail));
    if (block.empty()) break;
    for (const char c : block) {
      ++at;
      if (c != '\n') {
        if (head.size() < kMostPlaceBytes) head += c;
        continue;
      }
      const auto place = PlaceInHistory(head);
      if (place && place->step >= step) {
        file_.SetEnd(start);
        return absl::OkStatus();
      }
      head.clear();
      start = at;
    }
  }
  return absl::AbortedError(absl::StrCat(file_.path(), " was changed by somebody else"));
}

absl::Status HistoryFile::Follow(const Journal& journal, const JobJournal& job, Step recorded,
                                 const std::stop_token& stop) {
  if (!is_found_ || !file_.IsAsWritten()) MUSTER_RETURN_IF_ERROR(FindEnd());
  is_found_ = false;  // unless all goes well
  for (bool more = true; more;) {
    MUSTER_ASSIGN_OR_RETURN(
        const HistoryPage page,
        ReadHistory(journal, job, recorded, {.from = next_, .lineage = lineage_}, {}));
    std::string lines;
    for (const HistoryStep& step : page.steps) lines += HistoryLine(step);
    const bool is_there =
        tells_last_state_ && !lines.empty() && page.steps.front().last_state == next_;
    if (!lines.empty() && !is_there) {
      const HistoryStep &first = page.steps.front(), &last = page.steps.back();
      if (first.step < next_ || tells_last_state_)
        MUSTER_RETURN_IF_ERROR(CutBefore(std::min(first.step, next_)));
      MUSTER_RETURN_IF_ERROR(file_.Append(lines));
      tells_last_state_ = last.last_state.has_value();
      next_ = last.last_state.value_or(last.step + 1);
      lineage_ = page.steps.back().lineage;
    }
    more = page.next.has_value();
    if (more && stop.stop_requested()) return absl::CancelledError("we are told to stop");
  }
  is_found_ = true;
  return absl::OkStatus();
}

HistoryFiles::HistoryFiles(const Journal& journal, std::string folder,
                           std::string tensorboard_folder, Known known, Duration last_look)
    : journal_(journal),
      folder_(std::move(folder)),
      tensorboard_folder_(std::move(tensorboard_folder)),
      known_(std::move(known)),
      last_look_(last_look),
      thread_([this] { Loop(); }) {}

HistoryFiles::~HistoryFiles() {
  if (last_look_ == Duration()) stop_writing_.request_stop();
  stop_.Stop();
  if (!ended_.WaitFor(last_look_)) stop_writing_.request_stop();
  thread_.join();
}

void HistoryFiles::Loop() {
  for (bool last = false; !last;) {
    last = stop_.WaitFor(kPeriod);
    LookAtAll();
  }
  ended_.Stop();
}

void HistoryFiles::LookAtAll() {
  const absl::StatusOr<KnownJobsPtr> jobs = known_();
  if (!jobs.ok()) return;
  if (seen_ == nullptr || LacksSome(*seen_, **jobs)) RemoveDeleted(**jobs);
  seen_ = *jobs;
  for (const KnownJobPtr& known : **jobs) LookAt(known);
  std::erase_if(kept_, [&](const auto& kept) { return !FindJob(**jobs, kept.first).ok(); });
}

std::string HistoryFiles::FolderOf(const std::string& job) const {
  return absl::StrCat(folder_, "/", job);
}

// What a deleted job of that id has left there goes. What lacks our note, as an earlier version
// wrote it, is written anew: the ledger has all of it. Not of a job that was adopted: its steps
// before that another cluster may have written there, and nobody else has them.
absl::Status HistoryFiles::TakeFolder(const JobJournal& job) const {
  const std::string folder = FolderOf(job.id), note = NoteOf(journal_, job);
  const absl::StatusOr<std::string> found = ReadWholeFile(folder + kHistoryOf, kMostNoteBytes);
  if (found.ok() && *found == note) return absl::OkStatus();
  MUSTER_RETURN_IF_ERROR(MakeDirectories(folder));
  const bool is_of_deleted = found.ok() && absl::StartsWith(*found, BeginOfNote(journal_));
  if (is_of_deleted || AdoptedAt(job) == Step(0))
    MUSTER_RETURN_IF_ERROR(RemoveFile(folder + kHistory));
  return ReplaceFile(folder + kHistoryOf, note);
}

// Also of those that were deleted while no coordinator ran, or shortly before it ended.
void HistoryFiles::RemoveDeleted(const KnownJobs& jobs) const {
  std::vector<std::string> deleted;
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder_, error), end; !error && at != end;
       at.increment(error)) {
    const std::string id = at->path().filename();
    if (!IsJobId(id) || FindJob(jobs, id).ok()) continue;
    const auto note = ReadWholeFile(FolderOf(id) + kHistoryOf, kMostNoteBytes);
    if (note.ok() && absl::StartsWith(*note, BeginOfNote(journal_))) deleted.push_back(id);
  }
  for (const std::string& id : deleted)
    if (const absl::Status removed = Remove(id); !removed.ok())
      LogWarning("the history of job %s, which was deleted, is not: %s; the next start tries again",
                 id, removed.message());
}

// The note goes last: where this is cut short, the rest is removed the next time.
absl::Status HistoryFiles::Remove(const std::string& job) const {
  if (!tensorboard_folder_.empty())
    MUSTER_RETURN_IF_ERROR(TensorBoardFile::Remove(absl::StrCat(tensorboard_folder_, "/", job)));
  MUSTER_RETURN_IF_ERROR(RemoveFile(FolderOf(job) + kHistory));
  MUSTER_RETURN_IF_ERROR(RemoveFile(FolderOf(job) + kHistoryOf));
  std::error_code error;
  std::filesystem::remove(FolderOf(job), error);  // not where others have put something there
  return absl::OkStatus();
}

absl::Status HistoryFiles::Write(Kept& kept, const KnownJob& known) const {
  const JobStatus& status = known.status;
  const std::stop_token stop = stop_writing_.get_token();
  MUSTER_RETURN_IF_ERROR(TakeFolder(status.job));
  MUSTER_RETURN_IF_ERROR(kept.file.Follow(journal_, status.job, status.step, stop));
  if (tensorboard_folder_.empty()) return absl::OkStatus();
  return kept.board.Follow(journal_, status.job, status.step, stop);
}

void HistoryFiles::LookAt(const KnownJobPtr& known) {
  const JobJournal& job = known->status.job;
  if (job.deleting || known->status.step == Step(0)) return;
  auto kept = kept_.find(job.id);
  if (kept != kept_.end() && kept->second.first_start != job.first_start) {
    kept_.erase(kept);
    kept = kept_.end();
  }
  if (kept == kept_.end())
    kept =
        kept_
            .emplace(job.id,
                     Kept{job.first_start, HistoryFile(FolderOf(job.id) + kHistory),
                          TensorBoardFile(absl::StrCat(tensorboard_folder_, "/", job.id)), nullptr})
            .first;
  Kept& of = kept->second;
  if (of.last == known) return;
  const absl::Status written = Write(of, *known);
  if (absl::IsCancelled(written)) return;  // the next coordinator goes on
  if (written.ok()) of.last = known;
  const bool was_failing = std::exchange(of.is_failing, !written.ok());
  if (of.is_failing && !was_failing)
    LogWarning(
        "the history of job %s is not written for now (%s); the ledger has it, and the file "
        "is made whole later",
        job.id, written.message());
}

}  // namespace muster::coordinator
