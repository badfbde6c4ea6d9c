#include "lib/spool/spool_writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/check.h"
#include "lib/base/status.h"
#include "lib/base/whole_file.h"

namespace muster {
namespace {

constexpr uint64_t kWrittenAtOnce = uint64_t{1} << 20;

}  // namespace

absl::Status MakeSpoolFolder(const std::string& folder) {
  if (mkdir(folder.c_str(), 0755) != 0) {
    if (errno != EEXIST) return FileError(errno, "make directory", folder);
    std::error_code error;
    if (!std::filesystem::is_directory(folder, error))
      return FileError(ENOTDIR, "make directory", folder);
  }
  return SyncDirectory(std::filesystem::path(folder).parent_path().string());
}

absl::StatusOr<std::unique_ptr<SpoolWriter>> SpoolWriter::Create(const std::string& folder,
                                                                 const SpoolFileName& file,
                                                                 uint64_t first,
                                                                 uint64_t sample_bytes) {
  std::string path = absl::StrCat(folder, "/", NameOf(file));
  MUSTER_ASSIGN_OR_RETURN(Descriptor opened, OpenRegularFile(path, O_WRONLY | O_CREAT | O_EXCL));
  std::unique_ptr<SpoolWriter> writer(
      new SpoolWriter(std::move(opened), folder, std::move(path), first, sample_bytes));
  const SpoolHead head = MakeSpoolHead(file, first, sample_bytes);
  if (absl::Status written = writer->WriteAll(head, 0); !written.ok()) {
    unlink(writer->path().c_str());
    return written;
  }
  return writer;
}

SpoolWriter::SpoolWriter(Descriptor file, std::string folder, std::string path, uint64_t first,
                         uint64_t sample_bytes)
    : file_(std::move(file)),
      folder_(std::move(folder)),
      path_(std::move(path)),
      first_(first),
      sample_bytes_(sample_bytes) {}

absl::Status SpoolWriter::CheckSound() const {
  if (!broken_) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("'", path_, "': an earlier write has failed; begin another segment"));
}

absl::Status SpoolWriter::WriteAll(absl::Span<const std::byte> bytes, uint64_t offset) {
  const uint64_t begin = offset;
  while (!bytes.empty()) {
    const ssize_t n = pwrite(file_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      absl::Status status = FileError(n == 0 ? ENOSPC : errno, "write", path_);
      broken_ = true;
      // Nobody reads what is behind the facts; that whole samples alone are left is for people.
      if (ftruncate(file_.get(), static_cast<off_t>(begin)) != 0) broken_ = true;
      return status;
    }
    bytes.remove_prefix(static_cast<size_t>(n));
    offset += static_cast<uint64_t>(n);
  }
  return absl::OkStatus();
}

absl::Status SpoolWriter::Append(absl::Span<const std::byte> samples) {
  const auto bytes = static_cast<size_t>(sample_bytes_);
  MUSTER_CHECK(samples.size() % bytes == 0, "whole samples are appended");
  MUSTER_RETURN_IF_ERROR(CheckSound());
  const auto at_once = static_cast<size_t>(
      std::max<uint64_t>(1, kWrittenAtOnce / (sample_bytes_ + kSpoolTailBytes)));
  std::vector<std::byte> stored;
  while (!samples.empty()) {
    const size_t count = std::min(at_once, samples.size() / bytes);
    stored.resize(count * (bytes + kSpoolTailBytes));
    std::byte* to = stored.data();
    for (size_t i = 0; i < count; ++i, to += bytes + kSpoolTailBytes) {
      const absl::Span<const std::byte> sample = samples.subspan(i * bytes, bytes);
      const uint32_t checksum = SpoolChecksum(first_ + samples_ + i, sample);
      std::memcpy(to, sample.data(), bytes);
      std::memcpy(to + bytes, &checksum, sizeof(checksum));
    }
    MUSTER_RETURN_IF_ERROR(WriteAll(stored, OffsetInSpool(samples_, sample_bytes_)));
    samples_ += count;
    samples.remove_prefix(count * bytes);
  }
  return absl::OkStatus();
}

absl::Status SpoolWriter::Sync() {
  MUSTER_RETURN_IF_ERROR(CheckSound());
  broken_ = true;
  if (fsync(file_.get()) != 0) return FileError(errno, "sync", path_);
  if (!folder_synced_) MUSTER_RETURN_IF_ERROR(SyncDirectory(folder_));
  folder_synced_ = true;
  synced_ = samples_;
  broken_ = false;
  return absl::OkStatus();
}

}  // namespace muster
