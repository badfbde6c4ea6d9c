#include "lib/member/runtime/segment_writer.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/bytes.h"
#include "lib/base/check.h"
#include "lib/base/time.h"
#include "lib/checkpoint/segment.h"
#include "lib/domain/validation.h"
#include "lib/kernels/finite.h"

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
  jobs_.Post(std::make_shared<const CheckpointPartCopy>(std::move(part)));
  if (under_way > 1 || touching_) pace_.HurryWork();
}

void SegmentWriter::Expect(size_t elements) { jobs_.Post(Expected{elements}); }

void SegmentWriter::Run() {
  while (true) {
    auto job = jobs_.TakeUntil(NextTry());
    if (!job && jobs_.closed()) return;
    if (!job && !stopping_) WriteDue();
    if (!job || stopping_) continue;
    progress_.GoesOn(std::chrono::steady_clock::now());
    if (const auto* expected = std::get_if<Expected>(&*job)) TouchMemory(expected->elements);
    if (auto* part = std::get_if<Part>(&*job)) {
      ForgetCopiesIn(**part);
      WriteOne(std::move(*part), 0);
    }
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

Time SegmentWriter::NextTry() const {
  Time next = Time::max();
  for (const Retry& retry : retries_) next = std::min(next, retry.due);
  return next;
}

void SegmentWriter::WriteDue() {
  const Time now = std::chrono::steady_clock::now();
  std::vector<Retry> due;
  std::erase_if(retries_, [&](Retry& retry) {
    if (retry.due > now) return false;
    due.push_back(std::move(retry));
    return true;
  });
  for (Retry& retry : due) {
    progress_.GoesOn(now);
    WriteOne(std::move(retry.part), retry.failures);
    progress_.Rests();
  }
}

// Where the last checkpoint is written again, each copy of it would be kept until the disk has
// room.
void SegmentWriter::ForgetCopiesIn(const CheckpointPartCopy& newer) {
  const auto is_of_that = [&](const CheckpointPartCopy& part) {
    return part.lineage == newer.lineage && part.step == newer.step;
  };
  if (std::none_of(retries_.begin(), retries_.end(),
                   [&](const Retry& retry) { return is_of_that(*retry.part); }))
    return;
  std::set<std::pair<int32_t, ChunkId>> has;
  for (const PartView& view : newer.parts) has.emplace(view.slot, view.chunk);
  under_way_ -= static_cast<int>(std::erase_if(retries_, [&](const Retry& retry) {
    return is_of_that(*retry.part) &&
           std::all_of(retry.part->parts.begin(), retry.part->parts.end(),
                       [&](const PartView& view) {
                         return has.contains({view.slot, view.chunk});
                       });
  }));
}

// It cannot be written now, and nobody else has this state any more.
void SegmentWriter::TryAgain(std::shared_ptr<const CheckpointPartCopy> part, int failures,
                             std::string why) {
  constexpr int kMostTries = 100;
  constexpr Duration kFirst = std::chrono::seconds(1), kLongest = std::chrono::seconds(60);
  SegmentFailed failed{part->lineage, part->step, std::move(why)};
  const bool is_voided = kept_lineage_ > part->lineage.value();
  failed.gave_up = is_voided || failures >= kMostTries;
  if (!failed.gave_up) {
    const Duration pause = failures > 6 ? kLongest : kFirst * (1 << (failures - 1));
    retries_.push_back(
        {std::move(part), failures, std::chrono::steady_clock::now() + std::min(pause, kLongest)});
  } else {
    part.reset();
    --under_way_;
  }
  if (!is_voided) events_->Post(std::move(failed));
}

// Its memory is back before the answer, after which the next part may be copied.
void SegmentWriter::WriteOne(std::shared_ptr<const CheckpointPartCopy> part, int failures) {
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
  if (!segment.ok() && IsFollowed(setup_->spec.training, setup_->environment.samples, meta.step))
    return TryAgain(std::move(part), failures + 1, std::string(segment.status().message()));
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
