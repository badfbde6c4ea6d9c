#include "coordinator/runtime/history_files.h"

#include <algorithm>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "coordinator/runtime/history.h"
#include "lib/base/status.h"
#include "lib/log/log.h"

namespace muster::coordinator {
namespace {

constexpr Duration kPeriod = std::chrono::seconds(1);
// A line is much shorter: the last whole one is in so much of the end.
constexpr int64_t kTail = 16 * 1024;
// The step and the lineage at the begin of a line are in so much of it.
constexpr size_t kMostPlaceBytes = 80;

}  // namespace

absl::Status HistoryFile::FindEnd() {
  next_ = lineage_ = 0;
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
  next_ = place->step + 1;
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
    if (!lines.empty()) {
      if (page.steps.front().step < next_)
        MUSTER_RETURN_IF_ERROR(CutBefore(page.steps.front().step));
      MUSTER_RETURN_IF_ERROR(file_.Append(lines));
      next_ = page.steps.back().step + 1;
      lineage_ = page.steps.back().lineage;
    }
    more = page.next.has_value();
    if (more && stop.stop_requested()) return absl::CancelledError("we are told to stop");
  }
  is_found_ = true;
  return absl::OkStatus();
}

HistoryFiles::HistoryFiles(const Journal& journal, std::string folder,
                           std::string tensorboard_folder, Known known)
    : journal_(journal),
      folder_(std::move(folder)),
      tensorboard_folder_(std::move(tensorboard_folder)),
      known_(std::move(known)),
      thread_([this] { Loop(); }) {}

HistoryFiles::~HistoryFiles() {
  stop_writing_.request_stop();
  stop_.Stop();
  thread_.join();
}

void HistoryFiles::Loop() {
  for (bool last = false; !last;) {
    last = stop_.WaitFor(kPeriod);
    LookAtAll();
  }
}

void HistoryFiles::LookAtAll() {
  const absl::StatusOr<KnownJobsPtr> jobs = known_();
  if (!jobs.ok()) return;
  for (const KnownJobPtr& known : **jobs) LookAt(known);
  std::erase_if(kept_, [&](const auto& kept) {
    return std::none_of((*jobs)->begin(), (*jobs)->end(), [&](const KnownJobPtr& known) {
      return known->status.job.id == kept.first;
    });
  });
}

absl::Status HistoryFiles::Write(Kept& kept, const KnownJob& known) const {
  const JobStatus& status = known.status;
  const std::stop_token stop = stop_writing_.get_token();
  MUSTER_RETURN_IF_ERROR(kept.file.Follow(journal_, status.job, status.step, stop));
  if (tensorboard_folder_.empty()) return absl::OkStatus();
  return kept.board.Follow(journal_, status.job, status.step, stop);
}

void HistoryFiles::LookAt(const KnownJobPtr& known) {
  const JobJournal& job = known->status.job;
  const std::string folder = absl::StrCat(folder_, "/", job.id);
  std::error_code error;
  if (job.deleting || job.lineages.empty() || !std::filesystem::is_directory(folder, error)) return;
  auto kept = kept_.find(job.id);
  if (kept != kept_.end() && kept->second.first_start != job.first_start) {
    kept_.erase(kept);
    kept = kept_.end();
  }
  if (kept == kept_.end())
    kept =
        kept_
            .emplace(job.id,
                     Kept{job.first_start, HistoryFile(folder + "/metrics.jsonl"),
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
