#include "lib/lane_counter/lane_counter.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>

#include "lib/base/status.h"
#include "lib/base/whole_file.h"

namespace muster {
namespace {

constexpr uint64_t kMagic = 0x316c656e616c756d;  // "mulanel1"
constexpr off_t kRecordBytes = 64;
constexpr size_t kWords = kRecordBytes / sizeof(int64_t);
// As it lies in the file, one after the other: magic, version, incarnation (two words), total,
// lineage, step, lanes of the step. A hole has magic 0.
using Words = std::array<int64_t, kWords>;
static_assert(sizeof(Words) == kRecordBytes);

absl::Status Failed(absl::string_view what, const std::string& path, int error) {
  const std::string text =
      absl::StrCat("lane count file '", path, "': cannot ", what, ": ", strerror(error));
  switch (error) {
    case ENOENT: return absl::NotFoundError(text);
    case EACCES: return absl::PermissionDeniedError(text);
    case EDQUOT:
    case ENOSPC: return absl::ResourceExhaustedError(absl::StrCat(text, "; free some space"));
    default: return absl::UnavailableError(text);
  }
}

absl::StatusOr<Descriptor> OpenFile(const std::string& path, int flags) {
  absl::StatusOr<Descriptor> file = OpenRegularFile(path, flags);
  if (!file.ok()) return Prefix("lane count file", file.status());
  return file;
}

LaneCount CountFrom(const Words& words) {
  LaneCount count;
  count.incarnation = {static_cast<uint64_t>(words[2]), static_cast<uint64_t>(words[3])};
  count.total = words[4];
  count.lineage = LineageNumber(words[5]);
  count.step = Step(words[6]);
  count.in_step = words[7];
  return count;
}

Words WordsOf(const LaneCount& count, int64_t version) {
  return {static_cast<int64_t>(kMagic),
          version,
          static_cast<int64_t>(count.incarnation.hi),
          static_cast<int64_t>(count.incarnation.lo),
          count.total,
          count.lineage.value(),
          count.step.value(),
          count.in_step};
}

off_t WholeRecords(off_t bytes) { return bytes / kRecordBytes * kRecordBytes; }

// False at the end of the file.
absl::StatusOr<bool> ReadRecord(int fd, off_t at, const std::string& path, Words& words) {
  // Reads until the record did not change while it was read; a dead writer changes nothing.
  for (int64_t before = -1; words[1] != before || before < 0;) {
    before = words[1];
    const ssize_t n = pread(fd, words.data(), kRecordBytes, at);
    if (n == 0) return false;
    const auto magic = static_cast<uint64_t>(words[0]);
    if (n != kRecordBytes || (magic != kMagic && magic != 0))
      return absl::DataLossError(absl::StrCat("lane count file '", path, "' is not one of ours"));
  }
  return true;
}

}  // namespace

absl::StatusOr<std::unique_ptr<LaneCounter>> LaneCounter::Open(const std::string& path,
                                                               Incarnation incarnation) {
  std::unique_ptr<LaneCounter> counter(new LaneCounter(path, incarnation));
  MUSTER_RETURN_IF_ERROR(counter->Begin());
  return counter;
}

absl::Status LaneCounter::Begin() {
  std::error_code ignored;  // opening below says what is wrong
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), ignored);
  MUSTER_ASSIGN_OR_RETURN(file_, OpenFile(path_, O_RDWR | O_CREAT));
  struct stat file {};
  if (fstat(file_.get(), &file) != 0) return Failed("look at it", path_, errno);
  device_ = file.st_dev;
  inode_ = file.st_ino;
  at_ = WholeRecords(file.st_size);
  return Write();
}

absl::Status LaneCounter::Write() {
  const Words words = WordsOf(count_, ++version_);
  const ssize_t n = pwrite(file_.get(), words.data(), kRecordBytes, at_);
  if (n == kRecordBytes) return absl::OkStatus();
  return Failed("write to it", path_, n < 0 ? errno : ENOSPC);
}

absl::Status LaneCounter::Count(LineageNumber lineage, Step step) {
  const bool same = count_.lineage == lineage && count_.step == step;
  count_.lineage = lineage;
  count_.step = step;
  count_.in_step = same ? count_.in_step + 1 : 1;
  ++count_.total;
  struct stat file {};
  if (lstat(path_.c_str(), &file) != 0 || file.st_dev != device_ || file.st_ino != inode_) {
    spoiled_.Warn(
        "lane count file '%s' was removed or replaced while lanes were counted in it; "
        "it gets the counts of this process again",
        path_);
    return Begin();
  }
  if (file.st_size < at_ + kRecordBytes) {
    spoiled_.Warn(
        "lane count file '%s' was cut while lanes were counted in it; it gets the "
        "counts of this process again",
        path_);
    // The half of a record that somebody left would be read as a whole one.
    if (ftruncate(file_.get(), WholeRecords(file.st_size)) != 0)
      return Failed("mend it", path_, errno);
  }
  return Write();
}

absl::StatusOr<std::vector<LaneCount>> ReadLaneCounts(const std::string& path) {
  MUSTER_ASSIGN_OR_RETURN(const Descriptor file, OpenFile(path, O_RDONLY));
  std::vector<LaneCount> counts;
  for (off_t at = 0;; at += kRecordBytes) {
    Words words{};
    MUSTER_ASSIGN_OR_RETURN(const bool is_there, ReadRecord(file.get(), at, path, words));
    if (!is_there) return counts;
    if (words[0] != 0) counts.push_back(CountFrom(words));
  }
}

}  // namespace muster
