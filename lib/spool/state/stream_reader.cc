#include "lib/spool/state/stream_reader.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace muster {
namespace {

constexpr int kMostDoublings = 20;

// Positions that the coordinator knows once it has taken this.
uint64_t EndOf(const Spooled& spooled) { return spooled.first + spooled.count; }

bool MayPass(const absl::Status& status) {
  return !absl::IsDataLoss(status) && !absl::IsInvalidArgument(status) &&
         !absl::IsFailedPrecondition(status);
}

}  // namespace

StreamReaderActions StreamReader::Handle(const StreamReaderInput& input, Time now) {
  StreamReaderActions out;
  if (ended_) return out;
  std::visit([&](const auto& what) { On(what, now, out); }, input);
  if (!ended_) Advance(now, out);
  return out;
}

std::optional<Time> StreamReader::Wakes() const {
  if (ended_ || !begun_) return std::nullopt;
  const bool is_dirty = segment_ && segment_->appended > segment_->synced;
  if (!is_dirty || syncs_ || !last_sync_) return retry_at_;
  const Time sync = *last_sync_ + options_.sync_every;
  return retry_at_ ? std::min(*retry_at_, sync) : sync;
}

void StreamReader::On(const SpoolFrom& from, Time, StreamReaderActions& out) {
  if (begun_ && from.term < term_) return;
  if (begun_ && from.positions < facts_) {
    End(absl::AbortedError(absl::StrCat(
            "the coordinator knows ", from.positions, " samples of the stream, and has said that ",
            facts_,
            " are safe: an older copy of its store was put back; bring the newer one back")),
        out);
    return;
  }
  term_ = from.term;
  if (!begun_ || !GoesOn(from)) {
    Begin(from, out);
  } else if (told_ && (told_->end || EndOf(*told_) > from.positions)) {
    out.emplace_back(TellSpooled{*told_});
  }
  begun_ = true;
  Learn(from.positions, from.needed, from.room, out);
}

bool StreamReader::GoesOn(const SpoolFrom& from) const {
  const bool knows_what_we_told = told_ && from.positions == EndOf(*told_) && told_->count > 0;
  if (!knows_what_we_told && from.positions != facts_) return false;
  // The segment that the journal would have a row of by now, and no other one behind it.
  const bool has_row = segment_ && from.positions > segment_->first;
  return has_row ? from.next_segment == segment_->number + 1
                 : from.next_segment <= (segment_ ? segment_->number : next_number_);
}

// Whatever was appended and is no fact is nobody's.
void StreamReader::Begin(const SpoolFrom& from, StreamReaderActions& out) {
  next_number_ = std::max(from.next_segment, segment_ ? segment_->number + 1 : next_number_);
  segment_.reset();
  told_.reset();
  retry_at_.reset();
  taken_ = from.positions;
  place_ = synced_place_ = from.place;
  has_end_ = asks_source_ = false;
  syncs_.reset();
  out.emplace_back(StartSource{taken_, place_});
}

void StreamReader::Learn(uint64_t positions, uint64_t needed, uint64_t room,
                         StreamReaderActions& out) {
  limit_ = std::min(kMostSamples, std::max(needed, room));
  room_ = room;
  if (told_ && !told_->end && positions >= EndOf(*told_)) told_.reset();
  if (positions <= facts_) return;
  facts_ = positions;
  out.emplace_back(AnswerSender{facts_});
}

void StreamReader::On(const AckSpooled& ack, Time, StreamReaderActions& out) {
  if (!begun_ || ack.term < term_) return;
  term_ = ack.term;
  const uint64_t most = told_ ? std::max(facts_, EndOf(*told_)) : facts_;
  if (ack.positions > most) {
    End(absl::AbortedError(absl::StrCat("the coordinator has acknowledged ", ack.positions,
                                        " samples of the stream, and was told of ", most)),
        out);
    return;
  }
  Learn(ack.positions, ack.needed, ack.room, out);
}

void StreamReader::On(const SamplesCame& came, Time, StreamReaderActions& out) {
  if (!asks_source_) return;
  asks_source_ = false;
  if (came.count > 0) {
    if (!segment_) {
      last_most_ = MostOfNext();
      segment_ = Segment{.number = next_number_, .first = taken_, .most = last_most_};
      out.emplace_back(OpenSegment{segment_->number, segment_->first});
    }
    out.emplace_back(AppendSamples{});
    segment_->appended += came.count;
    taken_ += came.count;
  }
  place_ = came.place;
  has_end_ = came.end;
  if (Synced() == taken_) synced_place_ = place_;
}

void StreamReader::On(const SegmentSynced&, Time, StreamReaderActions&) {
  if (!syncs_ || !segment_) return;
  segment_->synced = syncs_->samples;
  synced_place_ = std::move(syncs_->place);
  syncs_.reset();
  failures_ = 0;
}

// What is not known to be on the disk is taken from the source once more, into another file.
void StreamReader::On(const SpoolFailed&, Time now, StreamReaderActions&) {
  if (!segment_) return;
  taken_ = Synced();
  place_ = synced_place_;
  segment_->appended = segment_->synced;
  segment_->closed = true;
  has_end_ = asks_source_ = false;
  syncs_.reset();
  Retry(now);
}

void StreamReader::On(const SourceFailed& failed, Time now, StreamReaderActions& out) {
  if (!asks_source_) return;
  asks_source_ = false;
  if (!MayPass(failed.status)) return End(failed.status, out);
  Retry(now);
}

void StreamReader::On(const TimePassed&, Time now, StreamReaderActions& out) {
  if (!retry_at_ || now < *retry_at_) return;
  retry_at_.reset();
  out.emplace_back(StartSource{taken_, place_});
}

void StreamReader::Retry(Time now) {
  const int doublings = std::min(failures_++, kMostDoublings);
  retry_at_ = now + std::min(options_.last_retry, options_.first_retry * (int64_t{1} << doublings));
}

void StreamReader::Advance(Time now, StreamReaderActions& out) {
  if (!begun_) return;
  Tell(out);
  Sync(now, out);
  // One that is full or has failed, and whose samples are all facts, is done with.
  if (segment_ && !told_ && segment_->appended == segment_->synced && facts_ == Synced() &&
      IsFull(*segment_)) {
    next_number_ = segment_->number + 1;
    segment_.reset();
  }
  Take(out);
}

uint64_t StreamReader::Synced() const {
  return segment_ ? segment_->first + segment_->synced : taken_;
}

// Of segments there may be only so many. While the spool has room they are few, as all have a part
// of its size. What is needed beyond that may be any number of samples until something is trimmed,
// so each is twice as long as the one before: they stay few, and no file is much longer than what
// is needed.
uint64_t StreamReader::MostOfNext() const {
  if (facts_ < room_) return options_.segment_samples;
  return std::clamp(2 * last_most_, options_.segment_samples, kMostSamples);
}

uint64_t StreamReader::MostOf(const Segment& segment) const {
  return facts_ < room_ ? options_.segment_samples : segment.most;
}

bool StreamReader::IsFull(const Segment& segment) const {
  return segment.closed || segment.appended >= MostOf(segment);
}

void StreamReader::Tell(StreamReaderActions& out) {
  if (told_) return;
  const uint64_t synced = Synced();
  const bool is_end = has_end_ && synced == taken_;
  if (synced <= facts_ && !is_end) return;
  told_ = Spooled{.segment = segment_ ? segment_->number : next_number_,
                  .first = segment_ ? segment_->first : taken_,
                  .count = segment_ ? segment_->synced : 0,
                  .place = synced_place_,
                  .end = is_end};
  out.emplace_back(TellSpooled{*told_});
}

void StreamReader::Sync(Time now, StreamReaderActions& out) {
  if (!segment_ || syncs_ || segment_->appended == segment_->synced) return;
  const bool is_due = !last_sync_ || now - *last_sync_ >= options_.sync_every;
  if (!is_due && !IsFull(*segment_)) return;  // nothing comes to a full one
  syncs_ = Syncing{segment_->appended, place_};
  last_sync_ = now;
  out.emplace_back(SyncSegment{});
}

void StreamReader::Take(StreamReaderActions& out) {
  if (asks_source_ || has_end_ || retry_at_ || taken_ >= limit_) return;
  uint64_t left = MostOfNext();
  if (segment_) left = IsFull(*segment_) ? 0 : MostOf(*segment_) - segment_->appended;
  const uint64_t most = std::min(left, limit_ - taken_);
  if (most == 0) return;
  asks_source_ = true;
  out.emplace_back(TakeSamples{most});
}

void StreamReader::End(absl::Status status, StreamReaderActions& out) {
  ended_ = true;
  out.emplace_back(EndReader{std::move(status)});
}

}  // namespace muster
