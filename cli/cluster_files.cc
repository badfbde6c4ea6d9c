#include "cli/cluster_files.h"

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/status.h"

namespace muster::cli {
namespace {

// A manifest or a name is often no larger, and a segment says in so much what is in it.
constexpr int64_t kFirstBlock = int64_t{64} << 10;

Time Now() { return std::chrono::steady_clock::now(); }

// Blocks of one job's files.
class Source {
 public:
  // `gone`: what is said of a file that is not there.
  Source(const RestClient& rest, std::string job, ClusterFilesPatience patience, std::string gone)
      : rest_(rest), job_(std::move(job)), patience_(patience), gone_(std::move(gone)) {}

  const std::string& job() const { return job_; }

  absl::StatusOr<FilePartAnswer> Read(const std::string& file, int64_t offset, int64_t bytes) {
    const Time end = Now() + patience_.whole;
    while (true) {
      absl::StatusOr<FilePartAnswer> part = rest_.ReadCheckpoint(job_, file, offset, bytes);
      if (part.ok() && !Fits(*part, offset, bytes))
        return absl::DataLossError(
            absl::StrCat("the cluster gives other bytes of ", file, " than were asked for"));
      if (absl::IsNotFound(part.status())) return absl::FailedPreconditionError(gone_);
      if (part.ok() || !IsPassing(part.status()) || Now() + patience_.pause >= end) return part;
      std::this_thread::sleep_for(patience_.pause);
    }
  }

 private:
  static bool Fits(const FilePartAnswer& part, int64_t offset, int64_t bytes) {
    const int64_t left = std::max<int64_t>(0, part.of - offset);
    return part.of >= 0 && static_cast<int64_t>(part.bytes.size()) == std::min(left, bytes);
  }

  const RestClient rest_;
  const std::string job_;
  const ClusterFilesPatience patience_;
  const std::string gone_;
};

class File final : public CheckpointFile {
 public:
  File(std::shared_ptr<Source> source, std::string file, FilePartAnswer begin)
      : source_(std::move(source)),
        file_(std::move(file)),
        size_(begin.of),
        block_(std::move(begin.bytes)) {}

  uint64_t size() const override { return static_cast<uint64_t>(size_); }

  absl::Status ReadAt(uint64_t offset, void* to, size_t bytes) const override {
    if (offset > size() || bytes > size() - offset)
      return absl::DataLossError(absl::StrCat(file_, " ends at byte ", size_));
    char* out = static_cast<char*>(to);
    auto at = static_cast<int64_t>(offset);
    for (size_t left = bytes; left > 0;) {
      if (at < start_ || at >= start_ + static_cast<int64_t>(block_.size()))
        MUSTER_RETURN_IF_ERROR(Fetch(at));
      const auto skip = static_cast<size_t>(at - start_);
      const size_t count = std::min(left, block_.size() - skip);
      std::memcpy(out, block_.data() + skip, count);
      out += count;
      at += static_cast<int64_t>(count);
      left -= count;
    }
    return absl::OkStatus();
  }

 private:
  // There is at least one byte there.
  absl::Status Fetch(int64_t at) const {
    block_.clear();
    MUSTER_ASSIGN_OR_RETURN(
        FilePartAnswer part,
        source_->Read(file_, at, std::min<int64_t>(kClusterFileBlock, size_ - at)));
    if (part.of != size_)
      return absl::DataLossError(absl::StrCat(file_, " changed while it was read"));
    start_ = at;
    block_ = std::move(part.bytes);
    return absl::OkStatus();
  }

  const std::shared_ptr<Source> source_;
  const std::string file_;
  const int64_t size_;
  mutable int64_t start_ = 0;
  mutable std::string block_;  // what stands from `start_` on
};

class Files final : public CheckpointFiles {
 public:
  explicit Files(std::shared_ptr<Source> source) : source_(std::move(source)) {}

  std::string PathOf(const std::string& file) const override {
    return absl::StrCat("job ", source_->job(), file.empty() ? "" : absl::StrCat(", ", file));
  }
  absl::StatusOr<std::unique_ptr<CheckpointFile>> Open(const std::string& file) const override {
    MUSTER_ASSIGN_OR_RETURN(FilePartAnswer begin, source_->Read(file, 0, kFirstBlock));
    return std::make_unique<File>(source_, file, std::move(begin));
  }
  // What there is the job says.
  absl::Status List(const std::string&, const Visit&) const override { return OnlyReads(); }
  absl::Status Create(const std::string&, const Write&) override { return OnlyReads(); }
  absl::Status Replace(const std::string&, absl::string_view) override { return OnlyReads(); }
  absl::Status Remove(const std::string&) override { return OnlyReads(); }
  absl::Status MakeFolder() override { return OnlyReads(); }
  void RemoveFolder(const std::string&) override {}

 private:
  static absl::Status OnlyReads() {
    return absl::FailedPreconditionError("checkpoints of a cluster are only read from here");
  }
  const std::shared_ptr<Source> source_;
};

}  // namespace

std::unique_ptr<CheckpointFiles> FilesOfCheckpoint(const RestClient& rest, const std::string& job,
                                                   const CheckpointPlace& place,
                                                   ClusterFilesPatience patience) {
  return std::make_unique<Files>(std::make_shared<Source>(
      rest, job, patience,
      absl::StrCat("the checkpoint of step ", place.second.value(), " of job ", job,
                   " is not there any more: it went while it was read, as newer ones came; try "
                   "again, or keep more of them (checkpoint.keep of the job)")));
}

}  // namespace muster::cli
