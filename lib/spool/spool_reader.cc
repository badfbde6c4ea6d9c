#include "lib/spool/spool_reader.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/check.h"
#include "lib/base/descriptor.h"
#include "lib/base/status.h"
#include "lib/base/whole_file.h"
#include "lib/spool/segment.h"

namespace muster {
namespace {

constexpr uint64_t kReadAtOnce = uint64_t{1} << 20;

class SpoolFile final : public SpoolBytes {
 public:
  SpoolFile(Descriptor file, std::string path) : file_(std::move(file)), path_(std::move(path)) {}

  const std::string& name() const override { return path_; }
  absl::StatusOr<size_t> ReadAt(uint64_t offset, absl::Span<std::byte> into) const override {
    size_t done = 0;
    while (done < into.size()) {
      const ssize_t n = pread(file_.get(), into.data() + done, into.size() - done,
                              static_cast<off_t>(offset + done));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return FileError(errno, "read", path_);
      if (n == 0) break;
      done += static_cast<size_t>(n);
    }
    return done;
  }

 private:
  const Descriptor file_;
  const std::string path_;
};

absl::Status ReadAll(const SpoolBytes& bytes, uint64_t offset, absl::Span<std::byte> into) {
  MUSTER_ASSIGN_OR_RETURN(const size_t read, bytes.ReadAt(offset, into));
  if (read == into.size()) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(bytes.name(), ": ends at byte ", offset + read,
                                             ", and should have ", offset + into.size()));
}

absl::Status TryToRead(const std::string& path, const SpoolSegment& fact, uint64_t sample_bytes,
                       uint64_t first, absl::Span<std::byte> into) {
  MUSTER_ASSIGN_OR_RETURN(Descriptor file, OpenRegularFile(path, O_RDONLY));
  return ReadSpooled(SpoolFile(std::move(file), path), fact, sample_bytes, first, into);
}

}  // namespace

absl::Status ReadSpooled(const SpoolBytes& bytes, const SpoolSegment& fact, uint64_t sample_bytes,
                         uint64_t first, absl::Span<std::byte> into) {
  const uint64_t count = into.size() / sample_bytes;
  MUSTER_CHECK(
      first >= fact.first && first + count <= fact.end() && into.size() == count * sample_bytes,
      "facts are read, and nothing else");
  SpoolHead head;
  MUSTER_RETURN_IF_ERROR(ReadAll(bytes, 0, absl::MakeSpan(head)));
  MUSTER_RETURN_IF_ERROR(CheckSpoolHead(bytes.name(), head, fact, sample_bytes));
  const uint64_t stored_bytes = sample_bytes + kSpoolTailBytes;
  const uint64_t at_once = std::max<uint64_t>(1, kReadAtOnce / stored_bytes);
  std::vector<std::byte> stored;
  for (uint64_t done = 0; done < count; done += at_once) {
    const uint64_t now = std::min(at_once, count - done);
    const uint64_t offset = OffsetInSpool(first + done - fact.first, sample_bytes);
    stored.resize(static_cast<size_t>(now * stored_bytes));
    MUSTER_RETURN_IF_ERROR(ReadAll(bytes, offset, absl::MakeSpan(stored)));
    MUSTER_RETURN_IF_ERROR(TakeSpooled(bytes.name(), offset, first + done, sample_bytes, stored,
                                       into.subspan(static_cast<size_t>(done * sample_bytes),
                                                    static_cast<size_t>(now * sample_bytes))));
  }
  return absl::OkStatus();
}

absl::Status ReadSpooledFile(const std::string& folder, const SpoolSegment& fact,
                             uint64_t sample_bytes, uint64_t first, absl::Span<std::byte> into,
                             const SpoolPatience& patience) {
  const std::string path =
      absl::StrCat(folder, "/", NameOf(SpoolFileName{fact.number, fact.writer}));
  const Time begun = patience.clock->Now();
  for (;;) {
    const absl::Status read = TryToRead(path, fact, sample_bytes, first, into);
    if (read.ok() || absl::IsDataLoss(read)) return read;
    if (patience.clock->Now() - begun >= patience.most)
      return absl::UnavailableError(
          absl::StrCat(read.message(), "; it was tried for ", Seconds(patience.most),
                       " s, so look at whether this host sees what others write there"));
    if (!patience.pause(patience.between))
      return absl::CancelledError(absl::StrCat(path, ": its samples are not wanted any more"));
  }
}

}  // namespace muster
