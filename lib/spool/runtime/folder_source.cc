#include "lib/spool/runtime/folder_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/clock.h"
#include "lib/base/descriptor.h"
#include "lib/base/mutex.h"
#include "lib/base/status.h"
#include "lib/base/whole_file.h"
#include "lib/spool/state/folder_order.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

// Where names come faster than lists are made, others are to have their turn.
constexpr int kMostLooks = 8;
// A folder is asked no more often than this for what is new.
constexpr Duration kPause = std::chrono::milliseconds(200);

int64_t Nanoseconds(const timespec& time) {
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

FileIdentity IdentityOf(const struct stat& found) {
  return {static_cast<uint64_t>(found.st_size), static_cast<uint64_t>(found.st_ino),
          Nanoseconds(found.st_mtim), Nanoseconds(found.st_ctim)};
}

// A file of the folder itself, and as what it was found.
struct OpenedFile {
  Descriptor file;
  FileIdentity identity;
};

absl::StatusOr<OpenedFile> Open(const std::string& path) {
  OpenedFile opened{
      Descriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW)),
      {}};
  if (!opened.file.is_open() && errno != ELOOP && errno != ENXIO)
    return ReadError(errno, "open", path);
  struct stat found {};
  if (!opened.file.is_open() || (fstat(opened.file.get(), &found) == 0 && !S_ISREG(found.st_mode)))
    return absl::DataLossError(
        absl::StrCat(path, ": it is no file; rename files into the folder, and nothing else"));
  opened.identity = IdentityOf(found);
  return opened;
}

class FolderSource final : public StreamSource {
 public:
  FolderSource(std::string folder, uint64_t sample_bytes)
      : folder_(std::move(folder)), sample_bytes_(sample_bytes), order_("") {}

  absl::Status Start(uint64_t, const StreamPlace& place) override {
    place_ = place;
    in_file_ = place.file.empty() ? 0 : place.identity.bytes / sample_bytes_;
    order_ = FolderOrder(place.file);
    begins_ = true;
    return absl::OkStatus();
  }

  absl::StatusOr<SamplesCame> Take(uint64_t most, Duration wait, std::string& samples) override {
    int looks = 0;
    while (place_.sample >= in_file_) {
      std::string name;
      const FolderStep step = order_.Next(name);
      if (step == FolderStep::kEnd) {
        const absl::Status end = CheckEnd();
        if (end.ok()) return SamplesCame{0, place_, true};
        if (!absl::IsNotFound(end)) return end;
      }
      if (step == FolderStep::kTake) {
        const absl::Status begun = Begin(name);
        if (begun.ok()) continue;
        if (!absl::IsNotFound(begun)) return begun;
        // It was removed before anything of it was taken.
      }
      const bool is_idle = step == FolderStep::kWait && looks > 0;
      if (is_idle) Pause(std::min(wait, kPause));
      if (is_idle || looks >= kMostLooks) return SamplesCame{0, place_, false};
      MUSTER_RETURN_IF_ERROR(Look());
      ++looks;
    }
    return Read(std::min(most, in_file_ - place_.sample), samples);
  }

  void Answer(uint64_t) override {}

  void Wake() override {
    {
      const MutexLock lock(mutex_);
      woken_ = true;
    }
    changed_.NotifyAll();
  }

 private:
  std::string PathOf(const std::string& name) const { return absl::StrCat(folder_, "/", name); }

  absl::Status Look() {
    struct stat found {};
    if (stat(folder_.c_str(), &found) != 0) return ReadError(errno, "look at", folder_);
    if (!S_ISDIR(found.st_mode))
      return absl::FailedPreconditionError(absl::StrCat(
          "data.stream.path: ", folder_,
          " is no folder, and with data.stream.source: folder it has to be; name the folder that "
          "files come to"));
    std::vector<std::string> names;
    std::error_code error;
    for (fs::directory_iterator it(folder_, error), end; !error && it != end; it.increment(error)) {
      std::string name = it->path().filename().string();
      if (IsStreamFile(name)) names.push_back(std::move(name));
      if (names.size() > kMostStreamFiles)
        return absl::DataLossError(absl::StrCat(folder_, ": it has more than ", kMostStreamFiles,
                                                " files; remove those that were taken"));
    }
    if (error) return ReadError(error.value(), "list directory", folder_);
    std::sort(names.begin(), names.end());
    if (std::exchange(begins_, false)) MUSTER_RETURN_IF_ERROR(CheckOld(names));
    folder_changed_ = Nanoseconds(found.st_mtim);
    return order_.See(folder_, std::move(names));
  }

  // What is there when we begin, and should have been taken by who was before us.
  absl::Status CheckOld(const std::vector<std::string>& names) const {
    for (const std::string& name : names) {
      if (name > place_.file) break;
      // Whether that is the same one is seen when it is read.
      const bool is_being_taken = name == place_.file && place_.sample < in_file_;
      if (is_being_taken || name == kStreamEndName) continue;
      struct stat found {};
      if (lstat(PathOf(name).c_str(), &found) != 0) continue;  // removed meanwhile
      MUSTER_RETURN_IF_ERROR(CheckTaken(PathOf(name), IdentityOf(found), place_));
    }
    return absl::OkStatus();
  }

  // One that holds something may be samples, which would be lost.
  absl::Status CheckEnd() const {
    const std::string path = PathOf(kStreamEndName);
    MUSTER_ASSIGN_OR_RETURN(const OpenedFile opened, Open(path));
    if (opened.identity.bytes == 0) return absl::OkStatus();
    return absl::DataLossError(
        absl::StrCat(path, ": it has ", opened.identity.bytes,
                     " bytes, and an empty file of this name ends the stream; give samples another "
                     "name, and leave it empty"));
  }

  absl::Status Begin(const std::string& name) {
    MUSTER_ASSIGN_OR_RETURN(const OpenedFile opened, Open(PathOf(name)));
    MUSTER_ASSIGN_OR_RETURN(in_file_, SamplesOfFile(PathOf(name), opened.identity, sample_bytes_));
    place_ = {name, 0, opened.identity,
              std::max({place_.seen, folder_changed_, opened.identity.changed})};
    order_.Took(name);
    return absl::OkStatus();
  }

  absl::StatusOr<SamplesCame> Read(uint64_t count, std::string& samples) {
    const std::string path = PathOf(place_.file);
    const auto changed = [&] {
      return absl::DataLossError(absl::StrCat(
          path, ": it was changed while it was taken, at byte ", place_.sample * sample_bytes_,
          "; rename files into the folder when they are whole, and leave them"));
    };
    absl::StatusOr<OpenedFile> opened = Open(path);
    if (absl::IsNotFound(opened.status()))
      return absl::DataLossError(
          absl::StrCat(path, ": it was removed when ", place_.sample, " of its ", in_file_,
                       " samples were taken; put it back as it was, with its times"));
    MUSTER_RETURN_IF_ERROR(opened.status());
    if (opened->identity != place_.identity) return changed();
    const size_t before = samples.size();
    const auto bytes = static_cast<size_t>(count * sample_bytes_);
    samples.resize(before + bytes);
    for (size_t done = 0; done < bytes;) {
      const ssize_t n = pread(opened->file.get(), samples.data() + before + done, bytes - done,
                              static_cast<off_t>(place_.sample * sample_bytes_ + done));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return FileError(errno, "read", path);
      if (n == 0) return changed();
      done += static_cast<size_t>(n);
    }
    struct stat after {};
    if (fstat(opened->file.get(), &after) != 0) return FileError(errno, "look at", path);
    if (IdentityOf(after) != place_.identity) return changed();
    place_.sample += count;
    return SamplesCame{count, place_, false};
  }

  void Pause(Duration time) {
    const Time until = RealClock().Now() + time;
    const MutexLock lock(mutex_);
    while (!woken_ && changed_.WaitUntil(mutex_, until)) {
    }
    woken_ = false;
  }

  const std::string folder_;
  const uint64_t sample_bytes_;
  StreamPlace place_;
  uint64_t in_file_ = 0;  // samples of the file of `place_`
  FolderOrder order_;
  bool begins_ = true;
  int64_t folder_changed_ = 0;  // before the last list

  Mutex mutex_;
  CondVar changed_;
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace

std::unique_ptr<StreamSource> MakeFolderSource(std::string folder, uint64_t sample_bytes) {
  return std::make_unique<FolderSource>(std::move(folder), sample_bytes);
}

}  // namespace muster
