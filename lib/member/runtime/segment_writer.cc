#include "lib/member/runtime/segment_writer.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/check.h"
#include "lib/base/time.h"
#include "lib/checkpoint/segment.h"
#include "lib/kernels/finite.h"
#include "lib/member/state/checkpoint_parts.h"

namespace muster {

SegmentWriter::SegmentWriter(SetupPtr setup, std::string writer, std::shared_ptr<EventBox> events,
                             Failpoints& failpoints)
    : setup_(std::move(setup)),
      writer_(std::move(writer)),
      events_(std::move(events)),
      failpoints_(failpoints),
      thread_([this] { Run(); }) {}

SegmentWriter::~SegmentWriter() {
  stopping_ = true;
  jobs_.Close();
  thread_.join();
}

void SegmentWriter::Write(CheckpointPartCopy part) {
  MUSTER_CHECK(++under_way_ <= CheckpointParts::kMost, "more parts of checkpoints than may wait");
  jobs_.Post(std::make_shared<const CheckpointPartCopy>(std::move(part)));
}

void SegmentWriter::Run() {
  while (true) {
    auto job = jobs_.TakeUntil(Time::max());
    if (!job && jobs_.closed()) return;
    if (job && !stopping_) WriteOne(*std::move(job));
  }
}

bool SegmentWriter::IsFinite(const CheckpointPartCopy& part) const {
  return std::all_of(part.parts.begin(), part.parts.end(), [this](const PartView& view) {
    return setup_->layout.chunk(view.chunk).kind == TensorKind::kBuffer || AllFinite(view.values);
  });
}

// Its memory is back before the answer, after which the next part may be copied.
void SegmentWriter::WriteOne(std::shared_ptr<const CheckpointPartCopy> part) {
  const auto begin = std::chrono::steady_clock::now();
  const std::string file =
      SegmentFile(part->lineage, part->step, absl::StrCat(writer_, "-", ++written_));
  const SegmentMeta meta{setup_->job, part->lineage, part->step, setup_->cluster};
  absl::StatusOr<Segment> segment = WriteSegment(setup_->checkpoint_dir, file, meta, part->parts);
  if (segment.ok()) failpoints_.Pass("segment_written");
  if (segment.ok()) segment->finite = IsFinite(*part);
  const double stall_seconds = part->stall_seconds;
  part.reset();
  --under_way_;
  if (!segment.ok()) {
    events_->Post(SegmentFailed{meta.lineage, meta.step, std::string(segment.status().message())});
    return;
  }
  SegmentWritten written{0, meta.lineage, meta.step, *std::move(segment), 0};
  written.seconds = stall_seconds + Seconds(std::chrono::steady_clock::now() - begin);
  events_->Post(std::move(written));
}

}  // namespace muster
