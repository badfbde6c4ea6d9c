// Segment files: one member's part of a checkpoint. The file describes itself
// (docs/formats.md): a header with magic, version, job, lineage, step and a table of entries under
// one CRC32C, then the entries' bytes, each under its own CRC32C, without a gap; every byte of the
// file is under one of the checksums or compared with a constant.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "lib/base/ids.h"
#include "lib/checkpoint/file.h"
#include "lib/domain/manifest.h"

namespace muster {

// What a segment says it belongs to.
struct SegmentMeta {
  std::string job;
  LineageNumber lineage{0};
  Step step{0};
  std::string cluster{};  // whose coordinator may delete it; a reader does not ask
};

// One chunk to be written, and one to be read; the memory is the caller's.
struct PartView {
  int32_t slot = kValuesSlot;
  ChunkId chunk{0};
  absl::Span<const float> values;
};
struct PartDest {
  int32_t slot = kValuesSlot;
  ChunkId chunk{0};
  absl::Span<float> values;
};

// The folder of a checkpoint, "lineage-2-step-140", and a file in it. `writer` (letters, digits,
// '.', '_', '-') must be unique per attempt, for instance NAME-INCARNATION-ROUND: a segment file is
// never written twice.
std::string CheckpointFolder(LineageNumber lineage, Step step);
std::string SegmentFile(LineageNumber lineage, Step step, absl::string_view writer);
inline constexpr char kSegmentSuffix[] = ".segment";

// Writes `dir`/`file` (its folder is made): under a temporary name, synced, renamed, directory
// synced. Parts: 1 … 262144 bytes each, any order, no (slot, chunk) twice. Reentrant. After any
// error no file of it stays behind. kInvalidArgument: unsafe name or bad parts; kAlreadyExists: the
// file is there; kResourceExhausted: disk full; kPermissionDenied; kUnavailable: another failure of
// the disk. Every message names the file. It goes through the parts twice, for their checksums and
// to write them, and calls `after_part`, if given, with a part's bytes after each part.
absl::StatusOr<Segment> WriteSegment(const std::string& dir, const std::string& file,
                                     const SegmentMeta& meta, absl::Span<const PartView> parts,
                                     const std::function<void(size_t bytes)>& after_part = {});

// Of the file `path`, whatever its name. kDataLoss: it has no whole header; others as
// SegmentReader::Open.
absl::StatusOr<SegmentMeta> ReadSegmentMeta(const std::string& path);

// An open segment, compared with what the manifest says. Movable; one thread at a time.
class SegmentReader {
 public:
  // kDataLoss where the file is missing, damaged or not the one that `expected` and `meta`
  // describe; `expected` may leave out entries of the file, but changes none and keeps their order.
  // The header is checked, the entries' bytes are not yet. Nothing is allocated from a size that
  // the real file does not back. Others: kPermissionDenied, kUnavailable.
  static absl::StatusOr<SegmentReader> Open(const std::string& dir, const Segment& expected,
                                            const SegmentMeta& meta);

  // Reads one of the expected entries; after an error the content of `values` is unspecified.
  // kInvalidArgument: wrong size of `values`; kDataLoss: bytes missing or checksum wrong, naming
  // file, slot and chunk.
  absl::Status Read(const SegmentEntry& entry, absl::Span<float> values) const;

 private:
  explicit SegmentReader(FileHandle file) : file_(std::move(file)) {}
  FileHandle file_;
};

}  // namespace muster
