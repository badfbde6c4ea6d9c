#include "tests/sim/reader_machine.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "lib/base/exit_codes.h"
#include "tests/sim/around.h"

namespace muster::sim {
namespace {

StreamReader::Options OptionsOf(const SimJob& job) {
  StreamReader::Options options;
  options.segment_samples = SamplesOfSegment(job.spec.runtime.stream.max_bytes, kSimSampleBytes);
  return options;
}

}  // namespace

ReaderMachine::ReaderMachine(MemberConfig config, Outside outside)
    : writer_(config.id.incarnation),
      outside_(std::move(outside)),
      session_(std::move(config)),
      reader_(OptionsOf(*outside_.job)) {}

ReaderMachine::~ReaderMachine() { LoseUnsynced(); }

void ReaderMachine::LoseUnsynced() {
  if (!file_ || file_->synced == file_->samples.size()) return;
  outside_.coverage->Add(Corner::kUnsyncedLost);
  const auto synced = static_cast<int64_t>(file_->synced);
  const int64_t left =
      outside_.schedule->Random(synced, static_cast<int64_t>(file_->samples.size()));
  file_->samples.resize(static_cast<size_t>(left));
}

void ReaderMachine::End(int code, const std::string& reason) {
  if (std::exchange(left_, true)) return;
  outside_.quit(code, reason);
}

// ---- the thread of the session, as lib/member/runtime/reader_exchange.cc feeds it

void ReaderMachine::Feed(const StreamSessionInput& input) {
  if (left_) return;
  for (const StreamSessionAction& action : session_.Handle(input))
    if (!left_) std::visit([this](const auto& a) { Do(a); }, action);
}

void ReaderMachine::Do(const GiveReader& a) {
  to_reader_.Push(*outside_.schedule, *outside_.runner, outside_.schedule->Random(0, 3),
                  [this, message = a.message] {
                    std::visit([this](const auto& said) { FeedReader(said); }, message);
                  });
}

// ---- what lib/spool/runtime/stream_reader_loop.cc does

void ReaderMachine::FeedReader(StreamReaderInput input) {
  if (left_) return;
  inputs_.push_back(std::move(input));
  if (std::exchange(feeds_, true)) return;
  while (!inputs_.empty() && !left_) {
    const StreamReaderInput next = std::move(inputs_.front());
    inputs_.pop_front();
    for (const StreamReaderAction& action : reader_.Handle(next, TimeOf(outside_.schedule->now())))
      if (left_ || !std::visit([this](const auto& a) { return Do(a); }, action)) break;
  }
  feeds_ = false;
  WakeLater();
}

void ReaderMachine::WakeLater() {
  const std::optional<Time> wakes = reader_.Wakes();
  const int64_t timer = ++timer_;
  if (!wakes || left_) return;
  const int64_t wait = (*wakes - TimeOf(outside_.schedule->now())) / std::chrono::milliseconds(1);
  outside_.runner->Later(std::max<int64_t>(1, wait), [this, timer] {
    if (timer == timer_ && !left_) FeedReader(TimePassed{});
  });
}

bool ReaderMachine::Do(const StartSource& a) {
  ++ask_;
  at_ = a.position;
  const std::string why_not = outside_.job->source->WhyNotFrom(a.position, a.place);
  if (!why_not.empty()) outside_.violate(absl::StrCat("the source cannot begin: ", why_not));
  return true;
}

bool ReaderMachine::Do(const TakeSamples& a) {
  wanted_ = a.most;
  Poll(++ask_);
  return true;
}

// Waits for a while where nothing is there, and says so then.
void ReaderMachine::Poll(int64_t ask) {
  outside_.runner->Later(outside_.schedule->Random(1, 40), [this, ask] {
    if (ask != ask_ || left_) return;
    Schedule& schedule = *outside_.schedule;
    SimSource& source = *outside_.job->source;
    if (schedule.OneIn(300) || !source.Keeps(at_)) {
      outside_.coverage->Add(Corner::kSourceFailures);
      return FeedReader(SourceFailed{absl::UnavailableError("the sender cannot be read for now")});
    }
    const uint64_t came = source.CameBy(schedule.now());
    const uint64_t there = std::min(wanted_, came > at_ ? came - at_ : 0);
    const auto takes = static_cast<uint64_t>(there == 0 || schedule.smooth()
                                                 ? static_cast<int64_t>(there)
                                                 : schedule.Random(1, static_cast<int64_t>(there)));
    samples_.clear();
    for (uint64_t i = 0; i < takes; ++i) samples_.push_back(source.SampleAt(at_ + i));
    at_ += takes;
    const bool ends = at_ == came && source.HasEndedBy(schedule.now());
    FeedReader(SamplesCame{takes, source.PlaceBehind(at_), ends});
  });
}

bool ReaderMachine::Fails(const std::string& what) {
  outside_.coverage->Add(Corner::kSpoolFailures);
  LoseUnsynced();
  ++sync_;
  inputs_.emplace_back(SpoolFailed{absl::UnavailableError(absl::StrCat(what, ": no space"))});
  return false;
}

bool ReaderMachine::Do(const OpenSegment& a) {
  LoseUnsynced();
  ++sync_;
  file_ = nullptr;
  if (outside_.schedule->OneIn(100)) return Fails("it cannot be made");
  file_ = std::make_shared<SpoolFile>();
  file_->first = a.first;
  number_ = a.number;
  const SpoolKey key{a.number, writer_};
  if (!outside_.job->spool.try_emplace(key, file_).second)
    outside_.violate(absl::StrCat("it opens segment ", a.number, ", which is there"));
  return true;
}

bool ReaderMachine::Do(const AppendSamples&) {
  file_->samples.insert(file_->samples.end(), samples_.begin(), samples_.end());
  return outside_.schedule->OneIn(200) ? Fails("it cannot be written") : true;
}

// What is appended meanwhile is in the next one.
bool ReaderMachine::Do(const SyncSegment&) {
  Schedule& schedule = *outside_.schedule;
  const int64_t takes = schedule.OneIn(30) ? schedule.Random(200, 2000) : schedule.Random(0, 15);
  const size_t upto = file_->samples.size();
  outside_.runner->Later(takes, [this, upto, sync = ++sync_] {
    if (sync != sync_ || left_) return;
    if (outside_.schedule->OneIn(100)) {
      Fails("it cannot be synced");
      const StreamReaderInput failed = std::move(inputs_.back());
      inputs_.pop_back();
      return FeedReader(failed);
    }
    file_->synced = upto;
    FeedReader(SegmentSynced{});
  });
  return true;
}

bool ReaderMachine::Do(const TellSpooled& a) {
  const Spooled& told = a.spooled;
  if (told.count > 0 && (!file_ || number_ != told.segment || file_->synced < told.count))
    outside_.violate(absl::StrCat("it tells of ", told.count, " samples of segment ", told.segment,
                                  " which are not on the disk"));
  to_session_.Push(*outside_.schedule, *outside_.runner, outside_.schedule->Random(0, 3),
                   [this, told] { Feed(told); });
  return true;
}

bool ReaderMachine::Do(const AnswerSender& a) {
  if (a.positions > outside_.job->store.known().positions)
    outside_.violate(absl::StrCat("the sender is told that ", a.positions, " samples are safe, of ",
                                  outside_.job->store.known().positions, " that are facts"));
  outside_.job->source->Answer(a.positions);
  return true;
}

bool ReaderMachine::Do(const EndReader& a) {
  outside_.violate(absl::StrCat("the reader cannot go on: ", a.status.message()));
  End(ExitCodeOf(a.status), std::string(a.status.message()));
  return false;
}

}  // namespace muster::sim
