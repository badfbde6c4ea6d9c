// Segment files: one member's part of a checkpoint. The file describes itself
// (docs/formats.md): a header with magic, version, job, lineage, step and a table of entries under
// one CRC32C, then the entries' bytes, each under its own CRC32C, without a gap; every byte of the
// file is under one of the checksums or compared with a constant.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "lib/base/ids.h"
#include "lib/checkpoint/files.h"
#include "lib/domain/manifest.h"
#include "lib/domain/view.h"

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
// What a folder that CheckpointFolder named is for; nothing for any other name.
std::optional<std::pair<LineageNumber, Step>> PlaceOfFolder(const std::string& name);
// Of a member, before the number of the attempt: no other has it, and it is never too long.
std::string WriterName(const MemberId& member);
std::string SegmentFile(LineageNumber lineage, Step step, absl::string_view writer);
inline constexpr char kSegmentSuffix[] = ".segment";

// Creates `file`. Parts: 1 … 262144 bytes each, any order, no (slot, chunk) twice. Reentrant. After
// any error no file of it stays behind. kInvalidArgument: unsafe name or bad parts; others as
// CheckpointFiles::Create. Every message names the file. It goes through the parts twice, for their
// checksums and to write them, and calls `after_part`, if given, with a part's bytes after each
// part.
absl::StatusOr<Segment> WriteSegment(CheckpointFiles& files, const std::string& file,
                                     const SegmentMeta& meta, absl::Span<const PartView> parts,
                                     const std::function<void(size_t bytes)>& after_part = {});

// Of a file, whatever its name. kDataLoss: it has no whole header; others as CheckpointFiles::Open.
absl::StatusOr<SegmentMeta> ReadSegmentMeta(const CheckpointFiles& files, const std::string& file);

// An open segment, compared with what the manifest says. Movable; one thread at a time.
class SegmentReader {
 public:
  // kDataLoss where the file is missing, damaged or not the one that `expected` and `meta`
  // describe; `expected` may leave out entries of the file, but changes none and keeps their order.
  // The header is checked, the entries' bytes are not yet. Nothing is allocated from a size that
  // the real file does not back. Others: kPermissionDenied, kUnavailable.
  static absl::StatusOr<SegmentReader> Open(const CheckpointFiles& files, const Segment& expected,
                                            const SegmentMeta& meta);

  // Reads one of the expected entries; after an error the content of `values` is unspecified.
  // kInvalidArgument: wrong size of `values`; kDataLoss: bytes missing or checksum wrong, naming
  // file, slot and chunk.
  absl::Status Read(const SegmentEntry& entry, absl::Span<float> values) const;

 private:
  SegmentReader(std::unique_ptr<CheckpointFile> file, std::string path)
      : file_(std::move(file)), path_(std::move(path)) {}
  std::unique_ptr<CheckpointFile> file_;
  std::string path_;
};

}  // namespace muster
