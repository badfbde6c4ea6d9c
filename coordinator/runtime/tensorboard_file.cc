#include "coordinator/runtime/tensorboard_file.h"

#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "coordinator/runtime/history.h"
#include "lib/base/status.h"
#include "lib/base/whole_file.h"
#include "lib/tensorboard/run.h"

namespace muster::coordinator {
namespace {

// The last record is in so much of the end, or all is written anew.
constexpr int64_t kTail = 256 * 1024;

// TensorBoard reads files of a run in the order of their names.
constexpr char kPrefix[] = "events.out.tfevents.", kSuffix[] = ".muster";
std::string NameOf(const JobJournal& job) {
  return absl::StrFormat("%s%020d.%020d%s", kPrefix, job.start.value(),
                         job.lineages.back().number.value(), kSuffix);
}

// The files of a run, as far as they can be seen.
std::vector<std::filesystem::path> FilesOf(const std::string& folder) {
  std::vector<std::filesystem::path> files;
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    const std::string name = at->path().filename();
    std::error_code looking;
    if (absl::StartsWith(name, kPrefix) && absl::EndsWith(name, kSuffix) &&
        at->is_regular_file(looking) && !at->is_symlink(looking))
      files.push_back(at->path());
  }
  return files;
}

}  // namespace

absl::Status TensorBoardFile::Follow(const Journal& journal, const JobJournal& job, Step recorded,
                                     const std::stop_token& stop) {
  if (job.lineages.empty() || recorded.value() == 0) return absl::OkStatus();
  const std::string path = absl::StrCat(folder_, "/", NameOf(job));
  if (!file_ || file_->path() != path) {
    file_.emplace(path);
    is_found_ = false;
  }
  if (!is_found_ || !file_->IsAsWritten()) {
    MUSTER_RETURN_IF_ERROR(MakeDirectories(folder_));
    MUSTER_RETURN_IF_ERROR(FindEnd());
  }
  is_found_ = false;  // unless all goes well
  if (!tells_end_) MUSTER_RETURN_IF_ERROR(FollowSteps(journal, job, recorded, stop));
  if (Ended(job.phase) && next_ > 0) MUSTER_RETURN_IF_ERROR(TellEnd(job));
  EmptyOlder();
  is_found_ = true;
  return absl::OkStatus();
}

absl::Status TensorBoardFile::FindEnd() {
  next_ = newest_ms_ = 0;
  tells_end_ = tells_sample_ = false;
  file_->SetEnd(0);
  MUSTER_ASSIGN_OR_RETURN(const FollowedFile::Tail tail, file_->ReadTail(kTail));
  const std::optional<tensorboard::LastRecord> last = tensorboard::FindLastRecord(tail.bytes);
  // Whatever is no file of ours, or was cut in the middle, is written anew: with the same bytes.
  if (!last || last->tag == tensorboard::kStartTag) return absl::OkStatus();
  file_->SetEnd(tail.start + static_cast<int64_t>(tail.bytes.size()));
  next_ = last->step + 1;
  newest_ms_ = last->unix_ms;
  tells_sample_ = last->tag == tensorboard::kSampleTag;
  tells_end_ = tells_sample_ || last->tag == tensorboard::kEndTag;
  return absl::OkStatus();
}

absl::Status TensorBoardFile::FollowSteps(const Journal& journal, const JobJournal& job,
                                          Step recorded, const std::stop_token& stop) {
  for (bool more = true; more;) {
    // With this start and lineage its steps are only added to.
    const int64_t lineage = next_ > 0 ? job.lineages.back().number.value() : 0;
    MUSTER_ASSIGN_OR_RETURN(
        const HistoryPage page,
        ReadHistory(journal, job, recorded, {.from = next_, .lineage = lineage}, {}));
    if (!page.steps.empty()) {
      std::string records;
      if (file_->end() == 0)
        records = tensorboard::BeginRun(job.id, job.spec, page.steps.front().unix_ms);
      for (const HistoryStep& step : page.steps) records += tensorboard::StepValues(step);
      MUSTER_RETURN_IF_ERROR(file_->Append(records));
      next_ = page.steps.back().step + 1;
      newest_ms_ = page.steps.back().unix_ms;
    }
    more = page.next.has_value();
    if (more && stop.stop_requested()) return absl::CancelledError("we are told to stop");
  }
  return absl::OkStatus();
}

// The sample comes after the end.
absl::Status TensorBoardFile::TellEnd(const JobJournal& job) {
  const int64_t step = next_ - 1;
  std::string records;
  if (!tells_end_)
    records += tensorboard::End(newest_ms_, step,
                                job.phase == JobPhase::kFailed ? tensorboard::Status::kFailure
                                                               : tensorboard::Status::kSuccess);
  if (!tells_sample_ && !job.ending.sample.empty())
    records += tensorboard::Sample(newest_ms_, step, job.ending.sample);
  if (records.empty()) return absl::OkStatus();
  MUSTER_RETURN_IF_ERROR(file_->Append(records));
  tells_end_ = true;
  tells_sample_ = !job.ending.sample.empty();
  return absl::OkStatus();
}

// One that cannot be emptied now is looked at again with the next step.
void TensorBoardFile::EmptyOlder() const {
  std::error_code error;
  for (const std::filesystem::path& path : FilesOf(folder_))
    if (path != file_->path()) std::filesystem::resize_file(path, 0, error);
}

absl::Status TensorBoardFile::Remove(const std::string& folder) {
  std::error_code error;
  for (const std::filesystem::path& path : FilesOf(folder)) {
    std::filesystem::remove(path, error);
    if (error) return FileError(error.value(), "remove", path.string());
  }
  std::filesystem::remove(folder, error);  // not where others have put something there
  return absl::OkStatus();
}

}  // namespace muster::coordinator
