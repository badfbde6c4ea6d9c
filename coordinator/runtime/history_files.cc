#include "coordinator/runtime/history_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "coordinator/runtime/history.h"
#include "lib/base/descriptor.h"
#include "lib/base/status.h"
#include "lib/base/whole_file.h"
#include "lib/log/log.h"

namespace muster::coordinator {
namespace {

constexpr Duration kPeriod = std::chrono::seconds(1);
// A line is much shorter: the last whole one is in so much of the end.
constexpr int64_t kTail = 16 * 1024;

}  // namespace

absl::Status HistoryFile::FindEnd() {
  end_ = next_ = lineage_ = 0;
  const absl::StatusOr<Descriptor> file = OpenRegularFile(path_, O_RDONLY);
  if (absl::IsNotFound(file.status())) return absl::OkStatus();
  MUSTER_RETURN_IF_ERROR(file.status());
  struct stat status {};
  if (fstat(file->get(), &status) != 0) return FileError(errno, "read", path_);
  const int64_t start = std::max<int64_t>(0, status.st_size - kTail);
  std::string tail(static_cast<size_t>(status.st_size - start), '\0');
  const ssize_t read = pread(file->get(), tail.data(), tail.size(), start);
  if (read < 0) return FileError(errno, "read", path_);
  tail.resize(static_cast<size_t>(read));
  const size_t last = tail.rfind('\n');
  if (last == std::string::npos) return absl::OkStatus();  // nothing whole
  end_ = start + static_cast<int64_t>(last) + 1;
  const size_t before = last == 0 ? std::string::npos : tail.rfind('\n', last - 1);
  const size_t first = before == std::string::npos ? 0 : before + 1;
  const auto place = PlaceInHistory(absl::string_view(tail).substr(first, last - first));
  // Of a line that is none of ours nothing is known: all comes again behind it.
  if (!place) return absl::OkStatus();
  next_ = place->step + 1;
  lineage_ = place->lineage;
  return absl::OkStatus();
}

// Somebody may remove the file, or cut it, while the job runs.
bool HistoryFile::IsAsWritten() const {
  struct stat status {};
  return stat(path_.c_str(), &status) == 0 ? status.st_size == end_ : errno == ENOENT && end_ == 0;
}

absl::Status HistoryFile::Append(const std::string& lines) {
  MUSTER_ASSIGN_OR_RETURN(const Descriptor file, OpenRegularFile(path_, O_WRONLY | O_CREAT));
  struct stat status {};
  if (fstat(file.get(), &status) != 0) return FileError(errno, "write", path_);
  if (status.st_size < end_)  // since we looked: there would be a hole before what we write
    return absl::AbortedError(absl::StrCat(path_, " was cut by somebody else"));
  if (ftruncate(file.get(), end_) != 0) return FileError(errno, "write", path_);
  for (size_t done = 0; done < lines.size();) {
    const ssize_t written = pwrite(file.get(), lines.data() + done, lines.size() - done,
                                   end_ + static_cast<int64_t>(done));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return FileError(errno, "write", path_);
    done += static_cast<size_t>(written);
  }
  end_ += static_cast<int64_t>(lines.size());
  return absl::OkStatus();
}

absl::Status HistoryFile::Follow(const Journal& journal, const JobJournal& job, Step recorded,
                                 const std::stop_token& stop) {
  if (!is_found_ || !IsAsWritten()) MUSTER_RETURN_IF_ERROR(FindEnd());
  is_found_ = false;  // unless all goes well
  for (bool more = true; more;) {
    MUSTER_ASSIGN_OR_RETURN(
        const HistoryPage page,
        ReadHistory(journal, job, recorded, {.from = next_, .lineage = lineage_}, {}));
    std::string lines;
    for (const HistoryStep& step : page.steps) lines += HistoryLine(step);
    if (!lines.empty()) {
      MUSTER_RETURN_IF_ERROR(Append(lines));
      next_ = page.steps.back().step + 1;
      lineage_ = page.steps.back().lineage;
    }
    more = page.next.has_value();
    if (more && stop.stop_requested()) return absl::CancelledError("we are told to stop");
  }
  is_found_ = true;
  return absl::OkStatus();
}

HistoryFiles::HistoryFiles(const Journal& journal, std::string folder, Known known)
    : journal_(journal),
      folder_(std::move(folder)),
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
            .emplace(job.id, Kept{job.first_start, HistoryFile(folder + "/metrics.jsonl"), nullptr})
            .first;
  Kept& of = kept->second;
  if (of.last == known) return;
  const absl::Status written =
      of.file.Follow(journal_, job, known->status.step, stop_writing_.get_token());
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
