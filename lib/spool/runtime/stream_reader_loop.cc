#include "lib/spool/runtime/stream_reader_loop.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/bytes.h"
#include "lib/base/status.h"
#include "lib/spool/state/sender_bytes.h"

namespace muster {
namespace {

// So much is held at a time, or one sample.
constexpr uint64_t kTakenAtOnce = uint64_t{1} << 20;
constexpr Duration kLongestWait = std::chrono::seconds(1);

}  // namespace

StreamReaderLoop::StreamReaderLoop(Parts parts)
    : parts_(std::move(parts)), reader_(parts_.options) {}

void StreamReaderLoop::Post(std::variant<SpoolFrom, AckSpooled> message) {
  messages_.Post(std::move(message));
  parts_.source->Wake();
}

void StreamReaderLoop::Stop(bool is_done) {
  is_done_ = is_done;
  messages_.Close();
  parts_.source->Wake();
}

absl::Status StreamReaderLoop::Run() {
  while (!ended_) {
    // What was said before is heard all the same: a sender waits for its last answer.
    const bool stops = messages_.closed();
    parts_.goes_on();
    // What the source has is waited for there.
    const Duration wait = wanted_ > 0 ? Duration::zero() : WaitAtMost();
    for (auto message = messages_.TakeUntil(parts_.clock->Now() + wait); message;
         message = messages_.TryTake())
      std::visit([&](auto& said) { Handle(std::move(said)); }, *message);
    if (stops && is_done_ && !ended_) parts_.source->Answer(kStreamIsDone);
    if (stops) break;
    Handle(TimePassed{});
    if (wanted_ > 0 && !ended_ && !messages_.closed()) TakeFromSource();
  }
  return status_;
}

Duration StreamReaderLoop::WaitAtMost() const {
  const auto wakes = reader_.Wakes();
  if (!wakes) return kLongestWait;
  return std::clamp<Duration>(*wakes - parts_.clock->Now(), Duration::zero(), kLongestWait);
}

void StreamReaderLoop::TakeFromSource() {
  const uint64_t at_once = std::max<uint64_t>(1, kTakenAtOnce / parts_.sample_bytes);
  samples_.clear();
  absl::StatusOr<SamplesCame> came =
      parts_.source->Take(std::min(std::exchange(wanted_, 0), at_once), WaitAtMost(), samples_);
  if (came.ok()) return Handle(*std::move(came));
  if (!absl::IsDataLoss(came.status())) parts_.told(std::string(came.status().message()));
  Handle(SourceFailed{came.status()});
}

// Of what was handled, and did not end us.
void StreamReaderLoop::NoteLack(const StreamReaderInput& input) {
  if (std::holds_alternative<SamplesCame>(input)) source_lacks_.clear();
  if (std::holds_alternative<SegmentSynced>(input)) spool_lacks_.clear();
  if (const auto* source = std::get_if<SourceFailed>(&input))
    source_lacks_ = std::string(source->status.message());
  if (const auto* spool = std::get_if<SpoolFailed>(&input))
    spool_lacks_ = std::string(spool->status.message());
  const std::string& why = spool_lacks_.empty() ? source_lacks_ : spool_lacks_;
  if (std::exchange(told_lacks_, why) != why) parts_.lacks(why);
}

void StreamReaderLoop::Handle(StreamReaderInput input) {
  inputs_.emplace_back(std::move(input));
  while (!inputs_.empty() && !ended_) {
    const StreamReaderInput next = std::move(inputs_.front());
    inputs_.pop_front();
    for (const StreamReaderAction& action : reader_.Handle(next, parts_.clock->Now())) {
      parts_.goes_on();
      if (!Do(action)) break;
    }
    if (!ended_) NoteLack(next);
  }
}

bool StreamReaderLoop::Do(const StreamReaderAction& action) {
  struct Doing {
    StreamReaderLoop& loop;
    bool operator()(const StartSource& start) const {
      loop.wanted_ = 0;
      const absl::Status status = loop.parts_.source->Start(start.position, start.place);
      loop.started_ = status;
      if (!status.ok()) loop.parts_.told(std::string(status.message()));
      return true;
    }
    bool operator()(const TakeSamples& take) const {
      if (loop.started_.ok())
        loop.wanted_ = take.most;
      else
        loop.inputs_.emplace_back(SourceFailed{loop.started_});
      return true;
    }
    bool operator()(const OpenSegment& segment) const { return loop.Write(loop.Open(segment)); }
    bool operator()(const AppendSamples&) const {
      return loop.Write(loop.segment_->Append(BytesOf(loop.samples_)));
    }
    bool operator()(const SyncSegment&) const {
      if (!loop.Write(loop.segment_->Sync())) return false;
      loop.inputs_.emplace_back(SegmentSynced{});
      return true;
    }
    bool operator()(const TellSpooled& tell) const {
      loop.parts_.tell(tell.spooled);
      return true;
    }
    bool operator()(const AnswerSender& answer) const {
      loop.parts_.source->Answer(answer.positions);
      return true;
    }
    bool operator()(const EndReader& end) const {
      loop.ended_ = true;
      loop.status_ = end.status;
      return true;
    }
  };
  return std::visit(Doing{*this}, action);
}

absl::Status StreamReaderLoop::Open(const OpenSegment& segment) {
  segment_.reset();
  MUSTER_RETURN_IF_ERROR(MakeSpoolFolder(parts_.folder));
  MUSTER_ASSIGN_OR_RETURN(
      segment_, SpoolWriter::Create(parts_.folder, {segment.number, parts_.writer}, segment.first,
                                    parts_.sample_bytes));
  return absl::OkStatus();
}

bool StreamReaderLoop::Write(absl::Status status) {
  if (status.ok()) return true;
  parts_.told(absl::StrCat(status.message(), "; it is tried again"));
  inputs_.emplace_back(SpoolFailed{std::move(status)});
  return false;
}

}  // namespace muster
