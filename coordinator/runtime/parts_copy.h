// Segments of a checkpoint that are made here, of parts that come from another one: few of them are
// in memory at a time. One thread.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "lib/base/ids.h"
#include "lib/checkpoint/files.h"
#include "lib/checkpoint/segment.h"
#include "lib/domain/manifest.h"

namespace muster::coordinator {

class PartsCopy {
 public:
  // `to` outlives it; `writer`: how the names of its files begin.
  PartsCopy(CheckpointFiles& to, SegmentMeta meta, std::string writer)
      : to_(to), meta_(std::move(meta)), writer_(std::move(writer)) {}

  // Errors of the files, here and below.
  absl::Status Add(int32_t slot, ChunkId chunk, std::vector<float> values);
  // What is held becomes a segment.
  absl::Status Write();
  // Those that were written.
  std::vector<Segment> Release();
  // Deletes what was written and not released. One that stays goes when a start drops what has no
  // job.
  void Drop();

  bool finite = true;  // what is added next

 private:
  struct Part {
    int32_t slot = 0;
    ChunkId chunk;
    std::vector<float> values;
  };
  std::string NextName() const;

  CheckpointFiles& to_;
  const SegmentMeta meta_;
  const std::string writer_;
  std::vector<Part> parts_;
  uint64_t held_ = 0;
  std::vector<Segment> written_;
};

}  // namespace muster::coordinator
