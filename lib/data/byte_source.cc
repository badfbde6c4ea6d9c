#include "lib/data/byte_source.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>
#include <vector>

#include "lib/base/descriptor.h"
#include "lib/base/mutex.h"
#include "lib/base/status.h"
#include "lib/data/hash_listener.h"
#include "lib/kernels/crc.h"

namespace muster {
namespace {

// So many bytes were read from `offset`.
struct Mark {
  uint64_t offset = 0;
  uint64_t bytes = 0;
  uint32_t crc = 0;
};

// What is another one once somebody has replaced the file, and also where it was only renamed, or
// got other rights, an owner or one more name. No tool sets back the time of change.
struct Touch {
  ino_t inode = 0;
  int64_t seconds = 0;
  int64_t nanoseconds = 0;
  bool operator==(const Touch&) const = default;
};

Touch TouchOf(const struct stat& found) {
  return {found.st_ino, found.st_ctim.tv_sec, found.st_ctim.tv_nsec};
}

class File final : public ByteSource {
 public:
  File(std::string path, const struct stat& found, std::shared_ptr<ReadMarks> marks,
       std::vector<Mark> seen)
      : path_(std::move(path)),
        size_(found.st_size),
        modified_(found.st_mtim),
        marks_(std::move(marks)),
        touch_(TouchOf(found)),
        seen_(std::move(seen)) {}

  const std::string& name() const override { return path_; }
  uint64_t size() const override { return static_cast<uint64_t>(size_); }

  absl::Status ReadEach(absl::Span<const Piece> pieces) const override {
    for (const Piece& piece : pieces) MUSTER_RETURN_IF_ERROR(CheckPlace(piece));
    const Descriptor file(open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    struct stat now {};
    if (!file.is_open() || fstat(file.get(), &now) != 0)
      return Bad(*this, std::generic_category().message(errno));
    if (!IsAsFound(now)) return HasChanged();
    MUSTER_RETURN_IF_ERROR(CheckTouch(file.get(), TouchOf(now)));
    while (!pieces.empty()) {
      const Piece run = TakeRun(pieces);
      MUSTER_RETURN_IF_ERROR(ReadPiece(file.get(), run));
      if (marks_->are_taken()) Remember(run);
      DataGoesOn();
    }
    return absl::OkStatus();
  }

 private:
  bool IsAsFound(const struct stat& now) const {
    return S_ISREG(now.st_mode) && now.st_size == size_ && now.st_mtim.tv_sec == modified_.tv_sec &&
           now.st_mtim.tv_nsec == modified_.tv_nsec;
  }

  absl::Status HasChanged() const { return Bad(*this, "it has changed since the job began"); }

  // Another one of the same size and time of modification, as some tools for copying make it, is
  // told from one that was only touched by what was read before. Others wait meanwhile, since it
  // would be their question, too.
  absl::Status CheckTouch(int file, const Touch& now) const {
    const MutexLock lock(mutex_);
    if (now == touch_) return absl::OkStatus();
    const bool tells_nothing = marks_->are_taken() ? marks_->places_are_told() : seen_.empty();
    if (!marks_->are_known() || tells_nothing)
      return Bad(*this,
                 "it may have been replaced since the job began: its inode or its time of change "
                 "is another one, and what it held was not read here; start the job again, which "
                 "compares it");
    for (const Mark& mark : seen_) {
      MUSTER_ASSIGN_OR_RETURN(const bool is_same, IsStillThere(file, mark));
      if (!is_same) return HasChanged();
    }
    touch_ = now;
    return absl::OkStatus();
  }

  absl::StatusOr<bool> IsStillThere(int file, const Mark& mark) const {
    constexpr uint64_t kAtOnce = uint64_t{1} << 20;
    std::vector<std::byte> bytes(static_cast<size_t>(std::min(kAtOnce, mark.bytes)));
    uint32_t crc = 0;
    for (uint64_t done = 0; done < mark.bytes;) {
      const auto some = absl::MakeSpan(bytes).first(
          static_cast<size_t>(std::min<uint64_t>(bytes.size(), mark.bytes - done)));
      MUSTER_RETURN_IF_ERROR(ReadPiece(file, {mark.offset + done, some}));
      crc = Crc32c(some, crc);
      done += some.size();
      DataGoesOn();
    }
    return crc == mark.crc;
  }

  // Pieces that follow one another are one mark, however large the file is.
  void Remember(const Piece& piece) const {
    const MutexLock lock(mutex_);
    if (seen_.empty() || seen_.back().offset + seen_.back().bytes != piece.offset)
      seen_.push_back({piece.offset, 0, 0});
    Mark& mark = seen_.back();
    mark.crc = Crc32c(piece.into, mark.crc);
    mark.bytes += piece.into.size();
  }

  // Those at the front that lie side by side, in the file and in memory: one call reads them.
  static Piece TakeRun(absl::Span<const Piece>& pieces) {
    Piece run = pieces.front();
    pieces.remove_prefix(1);
    while (!pieces.empty() && run.offset + run.into.size() == pieces.front().offset &&
           run.into.data() + run.into.size() == pieces.front().into.data()) {
      run.into = {run.into.data(), run.into.size() + pieces.front().into.size()};
      pieces.remove_prefix(1);
    }
    return run;
  }

  absl::Status ReadPiece(int file, const Piece& piece) const {
    for (size_t done = 0; done < piece.into.size();) {
      const ssize_t got = pread(file, piece.into.data() + done, piece.into.size() - done,
                                static_cast<off_t>(piece.offset + done));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return BadAt(*this, piece.offset + done, std::generic_category().message(errno));
      if (got == 0) return BadAt(*this, piece.offset + done, "it became shorter while it was read");
      done += static_cast<size_t>(got);
    }
    return absl::OkStatus();
  }

  const std::string path_;
  const off_t size_;
  const timespec modified_;
  const std::shared_ptr<ReadMarks> marks_;
  mutable Mutex mutex_;
  mutable Touch touch_ ABSL_GUARDED_BY(mutex_);  // with which it was found to be the same
  mutable std::vector<Mark> seen_ ABSL_GUARDED_BY(mutex_);
};

class Memory final : public ByteSource {
 public:
  Memory(std::string name, std::string bytes, DataMemory memory)
      : memory_(std::move(memory)), name_(std::move(name)), bytes_(std::move(bytes)) {}

  const std::string& name() const override { return name_; }
  uint64_t size() const override { return bytes_.size(); }

  absl::Status ReadEach(absl::Span<const Piece> pieces) const override {
    for (const Piece& piece : pieces) {
      MUSTER_RETURN_IF_ERROR(CheckPlace(piece));
      if (!piece.into.empty())
        std::memcpy(piece.into.data(), bytes_.data() + piece.offset, piece.into.size());
    }
    return absl::OkStatus();
  }

 private:
  const DataMemory memory_;
  const std::string name_;
  const std::string bytes_;
};

class Part final : public ByteSource {
 public:
  Part(SourcePtr whole, std::string name, uint64_t offset, uint64_t size,
       std::optional<uint32_t> crc)
      : whole_(std::move(whole)), name_(std::move(name)), offset_(offset), size_(size), crc_(crc) {}

  const std::string& name() const override { return name_; }
  uint64_t size() const override { return size_; }
  std::optional<uint32_t> crc() const override { return crc_; }

  absl::Status ReadEach(absl::Span<const Piece> pieces) const override {
    std::vector<Piece> of_whole(pieces.begin(), pieces.end());
    for (Piece& piece : of_whole) {
      MUSTER_RETURN_IF_ERROR(CheckPlace(piece));
      piece.offset += offset_;
    }
    return whole_->ReadEach(of_whole);
  }

 private:
  const SourcePtr whole_;
  const std::string name_;
  const uint64_t offset_;
  const uint64_t size_;
  const std::optional<uint32_t> crc_;
};

}  // namespace

absl::Status ByteSource::CheckPlace(const Piece& piece) const {
  if (piece.offset <= size() && piece.into.size() <= size() - piece.offset) return absl::OkStatus();
  return BadAt(*this, piece.offset, absl::StrCat(piece.into.size(), " bytes are missing"));
}

bool IsMadeWhileRead(int fd) {
  struct statfs system {};
  if (fstatfs(fd, &system) != 0) return false;
  const auto type = static_cast<uint64_t>(system.f_type);
  return type == PROC_SUPER_MAGIC || type == DEBUGFS_MAGIC || type == TRACEFS_MAGIC;
}

absl::StatusOr<SourcePtr> FileSource(const std::string& path, std::shared_ptr<ReadMarks> marks) {
  const auto bad = [&](const std::string& why) {
    return absl::DataLossError(absl::StrCat(path, ": ", why));
  };
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat found {};
  if (file.get() < 0 || fstat(file.get(), &found) != 0)
    return bad(std::generic_category().message(errno));
  if (!S_ISREG(found.st_mode)) return bad("it is no file any more");
  if (IsMadeWhileRead(file.get()))
    return bad("it is no stored file: the system makes it while it is read");
  return std::make_shared<File>(path, found, std::move(marks), std::vector<Mark>());
}

SourcePtr FileSource(std::string path, const struct stat& found, uint64_t bytes, uint32_t crc) {
  auto marks = std::make_shared<ReadMarks>();
  marks->Settle(/*all_was_read=*/true);
  return std::make_shared<File>(std::move(path), found, std::move(marks),
                                std::vector<Mark>{{0, bytes, crc}});
}

SourcePtr MemorySource(std::string name, std::string bytes, DataMemory memory) {
  return std::make_shared<Memory>(std::move(name), std::move(bytes), std::move(memory));
}

SourcePtr PartOf(SourcePtr whole, std::string name, uint64_t offset, uint64_t size,
                 std::optional<uint32_t> crc) {
  return std::make_shared<Part>(std::move(whole), std::move(name), offset, size, crc);
}

absl::StatusOr<std::string> ReadString(const ByteSource& source, uint64_t offset, uint64_t bytes) {
  std::string text(static_cast<size_t>(bytes), '\0');
  MUSTER_RETURN_IF_ERROR(
      source.ReadAt(offset, {reinterpret_cast<std::byte*>(text.data()), text.size()}));
  return text;
}

absl::StatusOr<std::string> ReadAll(const ByteSource& source, uint64_t most) {
  if (source.size() > most)
    return absl::ResourceExhaustedError(absl::StrCat(source.name(), ": it has ", source.size(),
                                                     " bytes, and at most ", most,
                                                     " may be held in memory at once"));
  return ReadString(source, 0, source.size());
}

absl::Status BadAt(const ByteSource& source, uint64_t offset, absl::string_view why) {
  return absl::DataLossError(absl::StrCat(source.name(), ": at byte ", offset, ": ", why));
}

absl::Status Bad(const ByteSource& source, absl::string_view why) {
  return absl::DataLossError(absl::StrCat(source.name(), ": ", why));
}

}  // namespace muster
