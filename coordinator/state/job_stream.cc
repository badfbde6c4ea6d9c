// A started job's stream: its reader, what is a fact of it, and what members are told
// (docs/decisions/0112-streams.md).
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/state/job_run.h"
#include "coordinator/state/plan.h"
#include "lib/base/exit_codes.h"
#include "lib/base/plural.h"

namespace muster::coordinator {
namespace {

std::string SamplesText(uint64_t samples) {
  return Plural(static_cast<int64_t>(samples), "sample");
}

}  // namespace

bool JobRun::HasStream() const { return IsStreamed(journal_.spec.training); }

StreamSteps JobRun::StepsOfStream() const { return StepsOf(journal_.spec.training); }

uint64_t JobRun::SampleCount() const { return SampleCountOf(journal_, stream_.known()); }

uint64_t JobRun::PositionOf(Step step) const {
  return static_cast<uint64_t>(step.value()) * StepsOfStream().samples;
}

bool JobRun::NeedsReader() const {
  return HasStream() && !NeedsNoMore(StepsOfStream(), stream_.known());
}

// ---- what the reader says

void JobRun::From(const MemberId& member, const Spooled& told) {
  if (Reader() != member) return Evict(member, "it says what a reader says, and is none");
  // Members go on to the first step that is not known, and stop there: it stays that one.
  if (journal_.ending.stop_asked || finishes_since_ || is_older_) return;
  const size_t before = stream_.segments().size();
  const absl::StatusOr<bool> is_new = stream_.Take(told, member.incarnation);
  lacks_segments_ = absl::IsResourceExhausted(is_new.status());
  if (lacks_segments_) return;  // it says so again once something was trimmed
  if (!is_new.ok()) {
    const std::string why = absl::StrCat("what ", member.name, " says of the stream does not go ",
                                         "on from what is known: ", is_new.status().message());
    Say("process", why);
    return Do(EndSession{member, why});
  }
  if (!*is_new) return AnswerReader(member);
  std::vector<SpoolSegment> news;
  if (told.count > 0) news.push_back(stream_.segments().back());
  Do(PersistStream{journal_.id, news, {}, stream_.rows().mark});
  if (IsEmptyStream()) return EndEmptyStream();
  if (before == 0) Say("stream", "the first samples of the stream have come");
  AnswerReader(member);
  TellMembersOfStream(std::move(news));
  if (const auto& end = stream_.known().end) SayStreamEnd(*end);
  LetReaderGo();
}

bool JobRun::IsEmptyStream() const { return HasStream() && stream_.known().end == uint64_t{0}; }

void JobRun::EndEmptyStream() {
  End(JobPhase::kFailed, "the stream ended, and there is no sample in it", kExitBadData);
}

void JobRun::SayStreamEnd(uint64_t end) {
  const int64_t steps = KnownTotal(StepsOfStream(), stream_.known()).value_or(0);
  Say("stream",
      absl::StrCat("the stream has ended: ", SamplesText(end), ", ", Plural(steps, "step")),
      {{"samples", absl::StrCat(end)}, {"steps", absl::StrCat(steps)}});
}

// Its processes find nothing to do any more, and others may have its slot.
void JobRun::LetReaderGo() {
  if (!HasStream() || NeedsReader() || journal_.placements.erase(kReaderName) == 0) return;
  gives_up_places_ = true;
  Persist();
  if (const std::optional<MemberId> reader = Reader();
      reader && membership_.Evict(*reader, kExitDone).value_or(false))
    Do(ToMember{*reader, Leave{leadership_.term, kExitDone, kAllIsSpooled, leadership_.cluster}});
  Say("process", absl::StrCat(kReaderName, " has left: ", kAllIsSpooled));
}

// A person may mend it, who looks at the job and not into the log of a process. What comes and goes
// is told now and then alone.
void JobRun::NoteReader(const MemberId& reader, const std::string& lacks) {
  if (std::exchange(reader_lacks_, lacks) == lacks) return;
  if (lacks.empty()) {
    if (std::exchange(told_reader_lacks_, false))
      Say("stream", absl::StrCat(reader.name, " can bring samples again"));
    return;
  }
  if (!reader_news_.Take(now_)) return;
  told_reader_lacks_ = true;
  Say("stream", absl::StrCat(reader.name, " cannot bring samples, and tries again: ", lacks));
}

// ---- what the reader is told

SpoolFrom JobRun::SpoolFromNow() const {
  const StreamRuntime& runtime = journal_.spec.runtime.stream;
  const uint64_t sample_bytes = SampleBytesOf(journal_.spec.training.data);
  return {leadership_.term,
          stream_.positions(),
          stream_.rows().mark.place,
          stream_.next_segment(),
          NeededPositions(StepsOfStream(), ledger_.recorded()),
          RoomOfSpool(StepsOfStream(), stream_.segments(), stream_.positions(),
                      std::max<uint64_t>(runtime.max_bytes, 1), sample_bytes)};
}

// Its session is new.
void JobRun::OnReader() {
  told_reader_.reset();
  reader_lacks_.clear();
  BeginReader();
}

// Once it is told whence, senders forget what they are answered, and files that we do not know go.
// So first a worker has tried the job's specification, which cannot be changed under its id, and
// the members that may know more than an older copy of the journal have come. What readers before
// it have left goes first.
void JobRun::BeginReader() {
  const std::optional<MemberId> reader = Reader();
  const bool may_begin = journal_.environment && !reattachment_ && !is_older_;
  if (!reader || told_reader_ || !may_begin) return;
  if (tidied_for_ == reader->incarnation) return TellReaderWhence(*reader);
  if (tidies_for_ == reader->incarnation) return;
  tidies_for_ = reader->incarnation;
  Do(TidySpool{journal_.id, stream_.segments(), reader->incarnation});
}

void JobRun::On(const SpoolTidied& tidied) {
  tidied_for_ = tidied.reader;
  BeginReader();
}

void JobRun::TellReaderWhence(const MemberId& reader) {
  const SpoolFrom from = SpoolFromNow();
  told_reader_ = std::max(from.needed, from.room);
  Do(ToMember{reader, from});
}

void JobRun::AnswerReader(const MemberId& reader) {
  const SpoolFrom now = SpoolFromNow();
  told_reader_ = std::max(now.needed, now.room);
  Do(ToMember{reader, AckSpooled{now.term, now.positions, now.needed, now.room}});
}

// It may go on further, or not as far, than it was told.
void JobRun::TellReaderOfRoom() {
  if (!HasStream() || !told_reader_ || journal_.ending.stop_asked || finishes_since_) return;
  const std::optional<MemberId> reader = Reader();
  const SpoolFrom now = SpoolFromNow();
  if (reader && std::max(now.needed, now.room) != *told_reader_) AnswerReader(*reader);
}

// ---- what members are told

void JobRun::TellStream(const MemberId& member) {
  if (!HasStream()) return;
  Do(ToMember{member, StreamIs{leadership_.term, stream_.positions(), stream_.known().end,
                               stream_.segments()}});
}

void JobRun::TellMembersOfStream(std::vector<SpoolSegment> news) {
  std::vector<MemberId> members;
  for (const auto& [id, live] : membership_.live())
    if (live.up && IsInViews(live.member.role)) members.push_back(id);
  if (members.empty()) return;
  Do(ToMembers{std::move(members), StreamIs{leadership_.term, stream_.positions(),
                                            stream_.known().end, std::move(news)}});
}

// ---- a stop while nobody has data

// The stop would ride with the result of a step that nobody can begin: nobody but us knows what
// would be in it, and we take no more.
bool JobRun::StopsForWantOfData() const {
  const JobEnding& ending = journal_.ending;
  return ending.stop_asked && !ending.stop_at && !ending.enough_at && StandsForWantOfData();
}

bool JobRun::StandsForWantOfData() const {
  return journal_.view && !journal_.resumes && !change_ &&
         journal_.view->number == journal_.number && LacksSamples();
}

// The open step is none that is known.
bool JobRun::LacksSamples() const {
  const Step open = ledger_.recorded();
  return HasStream() && open < EndStep() && !KnownStep(StepsOfStream(), stream_.known(), open);
}

// Whatever ended the start before this one there, such as a step that was not finite, has ended it.
bool JobRun::StopsWhereItBegan(Step end) const {
  return HasStream() && journal_.ending.stop_asked && journal_.lineages.back().fork == end;
}

void JobRun::StopHere() {
  const Step here = ledger_.recorded();
  const bool after_loss = next_view_ && next_view_->after_loss;
  if (here > Step(0)) {
    journal_.ending.stop_at = here;
    return Form("it stops, and there is no more data", after_loss);  // which journals both
  }
  if (journal_.ending.is_late) return End(JobPhase::kFailed, WhyItIsLate(), kExitFailed);
  End(JobPhase::kStopped, "stopped before its first step",
      journal_.ending.gives_way ? kExitLater : kExitStopped);
}

// Nothing is trimmed without a newer checkpoint, which does not come without samples, but for one
// that is being written.
void JobRun::EndWithoutSegments() {
  if (!lacks_segments_ || !StandsForWantOfData() || journal_.ending.stop_asked)
    return stands_since_.reset();
  if (!stands_since_) stands_since_ = now_;
  if (now_ - *stands_since_ <= WithTimeForState(leadership_.settings.checkpoint_patience)) return;
  End(JobPhase::kFailed,
      absl::StrCat("the spool has ", stream_.segments().size(),
                   " segments, and no more can be kept track of: its reader was started again too "
                   "often between two checkpoints, which have to come more often; the job can go "
                   "on from its last one"),
      kExitFailed);
}

// "step 41 waits for the stream, of which 2620 samples have come"
std::string JobRun::WaitsForStream() const {
  if (journal_.phase != JobPhase::kRunning || !LacksSamples()) return "";
  const Placement* placement = PlacementOf(journal_, kReaderName);
  const std::string& host = journal_.spec.runtime.stream.host;
  const std::string room = placement == nullptr || placement->host
                               ? ""
                               : absl::StrCat("; ", kReaderName, " waits for a free slot",
                                              host.empty() ? "" : absl::StrCat(" on host ", host));
  const std::string lacks =
      reader_lacks_.empty() || !Reader()
          ? ""
          : absl::StrCat("; ", kReaderName, " cannot bring more: ", reader_lacks_);
  return absl::StrCat(
      "step ", ledger_.recorded().value(), " waits for the stream, of which ",
      SamplesText(stream_.positions()), stream_.positions() == 1 ? " has come" : " have come", room,
      lacks, is_older_ ? "; no more is taken, since a member knows of more than the journal" : "");
}

// ---- what is not kept any more

// Of the checkpoints to which the job may go back by itself.
std::optional<Step> JobRun::OldestToGoBackTo() const {
  const int32_t keep = std::max(1, journal_.spec.runtime.checkpoint.keep);
  const std::vector<Manifest>& all = checkpoints_.committed();
  std::optional<Step> oldest;
  int32_t newer = 0;
  bool has_finite = false;
  for (auto m = all.rbegin(); m != all.rend(); ++m) {
    if (!OnAncestry(journal_.lineages, m->lineage, m->step) || IsTrimmed(m->step)) continue;
    // It takes no other's turn, and may be read again, by another start.
    if (checkpoints_.IsPassedOver(m->lineage, m->step)) {
      if (newer < keep) oldest = std::min(oldest.value_or(m->step), m->step);
      continue;
    }
    const bool is_newest_finite = !has_finite && IsFinite(*m);
    has_finite |= is_newest_finite;
    if (newer++ < keep || is_newest_finite || IsToBeMeasured(m->step))
      oldest = std::min(oldest.value_or(m->step), m->step);
  }
  return oldest;
}

void JobRun::TrimStream() {
  // Of a start that goes back to an older state it is not known yet which samples it needs.
  if (!HasStream() || journal_.resumes) return;
  const std::optional<Step> oldest = OldestToGoBackTo();
  if (!oldest) return;
  std::vector<SpoolSegment> trimmed = stream_.Trim(PositionOf(*oldest));
  if (trimmed.empty()) return;
  Do(PersistStream{journal_.id, {}, trimmed, stream_.rows().mark});
  Do(TrimSpool{journal_.id, std::move(trimmed)});
  const std::optional<MemberId> reader = Reader();
  if (std::exchange(lacks_segments_, false) && reader && told_reader_)
    return TellReaderWhence(*reader);
  TellReaderOfRoom();
}

// The first samples that it would use from there on are not kept.
bool JobRun::IsTrimmed(Step state) const {
  return HasStream() && PositionOf(state) < stream_.trimmed();
}

// What the job is told to begin with, for people; empty: its samples are there.
std::string JobRun::WhyNotResumed() const {
  const Resume& resume = journal_.spec.runtime.resume;
  if (!journal_.resumes || resume.kind == ResumeKind::kLatest) return "";
  const Step from(resume.kind == ResumeKind::kStep ? resume.step : 0);
  if (!IsTrimmed(from)) return "";
  return absl::StrCat("resume: step ", from.value(), " begins with sample ", PositionOf(from),
                      " of the stream, and those below ", stream_.trimmed(),
                      " are not kept any more; go on from the latest checkpoint, or submit the job "
                      "under another id, for a stream from its beginning");
}

}  // namespace muster::coordinator
