#include "muster/corpus.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "lib/base/bytes.h"
#include "lib/base/status.h"
#include "lib/data/byte_source.h"
#include "lib/data/data_memory.h"
#include "lib/data/file_walk.h"
#include "lib/data/held_files.h"
#include "lib/kernels/crc.h"
#include "lib/kernels/sha256.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

class Reader {
 public:
  explicit Reader(uint64_t most) : limit_(most == 0 ? std::numeric_limits<size_t>::max() : most) {}

  bool full() const { return bytes_.size() >= limit_ || !enough_memory_.ok(); }
  // Else the rest is missing, which `data.unreadable` has nothing to do with.
  const absl::Status& enough_memory() const { return enough_memory_; }

  // A file that fails half-way is left out as a whole, so that what is left out can be named.
  std::string Add(const fs::path& path) {
    const size_t before = bytes_.size();
    if (!files_.empty()) bytes_.push_back('\0');
    const std::string failure = Append(path.string());
    if (!failure.empty()) bytes_.resize(before);
    return failure;
  }

  std::string TakeBytes() { return std::move(bytes_); }
  std::vector<SourcePtr> TakeFiles() { return std::move(files_); }

 private:
  // Why it failed; empty: it did not. Opening waits for nobody, whatever took the file's place.
  std::string Append(const std::string& path) {
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) return std::generic_category().message(errno);
    struct stat file {};
    uint32_t crc = 0;
    off_t read_bytes = 0;
    const std::string failure = fstat(fd, &file) != 0 ? std::generic_category().message(errno)
                                                      : AppendOpen(fd, file, read_bytes, crc);
    close(fd);
    if (failure.empty())
      files_.push_back(FileSource(path, file, static_cast<uint64_t>(read_bytes), crc));
    return failure;
  }

  // `crc`: of the bytes that were read.
  std::string AppendOpen(int fd, const struct stat& file, off_t& read_bytes, uint32_t& crc) {
    if (!S_ISREG(file.st_mode)) return "it is no file any more";
    std::string piece(64 * 1024, '\0');
    while (!full()) {
      const ssize_t got = read(fd, piece.data(), piece.size());
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return std::generic_category().message(errno);
      if (read_bytes == 0 && got > 0 && IsMadeWhileRead(fd))
        return "it is no stored file: the system makes it while it is read";
      read_bytes += got;
      crc = Crc32c(BytesOf(absl::string_view(piece.data(), static_cast<size_t>(got))), crc);
      if (got == 0 && read_bytes < file.st_size) return "it became shorter while it was read";
      if (got == 0) return "";
      const size_t more = std::min(static_cast<size_t>(got), limit_ - bytes_.size());
      enough_memory_ = memory_.Take("data.paths", more);
      if (enough_memory_.ok()) bytes_.append(piece, 0, more);
    }
    return "";
  }

  const size_t limit_;
  std::vector<SourcePtr> files_;
  DataMemory memory_;
  absl::Status enough_memory_;
  std::string bytes_;
};

}  // namespace

absl::StatusOr<Corpus> ReadCorpus(const DataSpec& data) {
  Reader reader(data.max_bytes);
  Corpus corpus;
  MUSTER_ASSIGN_OR_RETURN(corpus.left_out,
                          WalkFiles(
                              data, [&] { return reader.full(); },
                              [&](const WalkedFile& file) { return reader.Add(file.path); }));
  if (!reader.enough_memory().ok())
    return absl::ResourceExhaustedError(
        absl::StrCat(reader.enough_memory().message(), "; data.max_bytes reads a part of it"));
  corpus.bytes = reader.TakeBytes();
  corpus.check_files = CheckInTurn(reader.TakeFiles());
  if (!corpus.bytes.empty()) return corpus;
  return NothingIn(data, "no content");
}

std::string ContentHash(std::initializer_list<std::string_view> parts) {
  Sha256 hash;
  for (std::string_view part : parts)
    hash.Update(BytesOf(absl::string_view(part.data(), part.size())));
  return hash.HexFinish();
}

}  // namespace muster
