#include "lib/member/runtime/segment_writer.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/bytes.h"
#include "lib/base/check.h"
#include "lib/base/time.h"
#include "lib/checkpoint/segment.h"
#include "lib/kernels/finite.h"
#include "lib/member/state/checkpoint_parts.h"

namespace muster {
namespace {

// Through the values of a part: two of WriteSegment and one of IsFinite.
constexpr size_t kPasses = 3;

size_t PartBytes(const CheckpointPartCopy& part) {
  size_t bytes = 0;
  for (const PartView& view : part.parts) bytes += BytesOf(view.values).size();
  return bytes;
}

}  // namespace

SegmentWriter::SegmentWriter(SetupPtr setup, std::string writer, std::shared_ptr<EventBox> events,
                             Failpoints& failpoints, ThreadProgress& progress, PaceRules pace)
    : setup_(std::move(setup)),
      writer_(std::move(writer)),
      events_(std::move(events)),
      failpoints_(failpoints),
      progress_(progress),
      pace_(pace),
      thread_([this] { Run(); }) {}

SegmentWriter::~SegmentWriter() {
  stopping_ = true;
  pace_.HurryAll(true);
  jobs_.Close();
  thread_.join();
}

void SegmentWriter::Write(CheckpointPartCopy part) {
  const int under_way = ++under_way_;
  MUSTER_CHECK(under_way <= CheckpointParts::kMost, "more parts of checkpoints than may wait");
  jobs_.Post(std::make_shared<const CheckpointPartCopy>(std::move(part)));
  if (under_way > 1 || touching_) pace_.HurryWork();
}

void SegmentWriter::Expect(size_t elements) { jobs_.Post(Expected{elements}); }

void SegmentWriter::Run() {
  while (true) {
    auto job = jobs_.TakeUntil(Time::max());
    if (!job && jobs_.closed()) return;
    if (!job || stopping_) continue;
    progress_.GoesOn(std::chrono::steady_clock::now());
    if (const auto* expected = std::get_if<Expected>(&*job)) TouchMemory(expected->elements);
    if (auto* part = std::get_if<Part>(&*job)) WriteOne(std::move(*part));
    progress_.Rests();
  }
}

void SegmentWriter::Did(size_t bytes) {
  progress_.Rests();  // for a while, if it is time to
  pace_.Did(bytes);
  progress_.GoesOn(std::chrono::steady_clock::now());
}

// Once a part is here it is too late, and a part that waits is more urgent.
void SegmentWriter::TouchMemory(size_t elements) {
  constexpr size_t kPage = 4096 / sizeof(float);
  constexpr size_t kPiece = Pace::kPieceBytes / sizeof(float);
  if (elements == 0) return;
  const std::shared_ptr<float[]> memory = setup_->part_memory->Borrow(elements);
  touching_ = true;
  pace_.Begin(elements * sizeof(float));
  for (size_t at = 0; at < elements && under_way_ == 0 && !stopping_; at += kPage) {
    memory[at] = 0;
    if (at % kPiece == 0 && at > 0) Did(kPiece * sizeof(float));
  }
  touching_ = false;
}

bool SegmentWriter::IsFinite(const CheckpointPartCopy& part) {
  return std::all_of(part.parts.begin(), part.parts.end(), [this](const PartView& view) {
    const bool finite =
        setup_->layout.chunk(view.chunk).kind != TensorKind::kParameter || AllFinite(view.values);
    Did(BytesOf(view.values).size());
    return finite;
  });
}

// Its memory is back before the answer, after which the next part may be copied.
void SegmentWriter::WriteOne(std::shared_ptr<const CheckpointPartCopy> part) {
  const auto begin = std::chrono::steady_clock::now();
  const std::string file =
      SegmentFile(part->lineage, part->step, absl::StrCat(writer_, "-", ++written_));
  const SegmentMeta meta{setup_->job, part->lineage, part->step, setup_->cluster};
  pace_.Begin(kPasses * PartBytes(*part));
  if (under_way_ > 1) pace_.HurryWork();
  absl::StatusOr<Segment> segment =
      WriteSegment(*CheckpointFilesIn(setup_->checkpoint_dir), file, meta, part->parts,
                   [this](size_t bytes) { Did(bytes); });
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
