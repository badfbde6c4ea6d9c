// Writes one segment of a spool. One thread at a time. Errors as FileError; each names the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "lib/base/descriptor.h"
#include "lib/spool/segment.h"

namespace muster {

// `folder`, in one that is there; durable. kNotFound: the one above is not there: a member that
// outlives its deleted job leaves nothing behind.
absl::Status MakeSpoolFolder(const std::string& folder);

class SpoolWriter {
 public:
  // The file and its head. kAlreadyExists: there is such a file: no process appends to another's.
  static absl::StatusOr<std::unique_ptr<SpoolWriter>> Create(const std::string& folder,
                                                             const SpoolFileName& file,
                                                             uint64_t first, uint64_t sample_bytes);

  // Whole samples, those of the next positions. After an error of this or of Sync nothing more may
  // be appended: what was on its way to the disk may be lost, and a second try would not tell.
  // kFailedPrecondition: there was one.
  absl::Status Append(absl::Span<const std::byte> samples);
  // All that was appended is on the disk, and the file will be found there after a loss of power.
  absl::Status Sync();

  uint64_t samples() const { return samples_; }  // appended
  uint64_t synced() const { return synced_; }    // of these on the disk
  const std::string& path() const { return path_; }

 private:
  SpoolWriter(Descriptor file, std::string folder, std::string path, uint64_t first,
              uint64_t sample_bytes);
  absl::Status CheckSound() const;
  // Takes back what was written of a part of it.
  absl::Status WriteAll(absl::Span<const std::byte> bytes, uint64_t offset);

  const Descriptor file_;
  const std::string folder_;
  const std::string path_;
  const uint64_t first_;
  const uint64_t sample_bytes_;
  uint64_t samples_ = 0;
  uint64_t synced_ = 0;
  bool folder_synced_ = false;
  bool broken_ = false;
};

}  // namespace muster
