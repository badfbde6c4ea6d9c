#include "tests/sim/stream_invariants.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace muster::sim {

using coordinator::JobPhase;
using coordinator::OnAncestry;

namespace {

StreamSteps StepsOf(const SimJob& job) { return muster::StepsOf(job.terms.training()); }

const SpoolSegment* RowOf(const std::vector<SpoolSegment>& rows, int64_t number) {
  for (const SpoolSegment& row : rows)
    if (row.number == number) return &row;
  return nullptr;
}

}  // namespace

void StreamInvariants::Violate(const SimJob& job, const std::string& what) {
  around_.trace.Violate(absl::StrCat(job.options.id, ": ", what));
}

// ---- what is persisted

void StreamInvariants::BeforePersist(const SimJob& job, const coordinator::PersistStream& news) {
  if (!job.source) return Violate(job, "facts of a stream that it does not have");
  const StreamKnown before = job.store.known();
  const coordinator::JobJournal& journal = *job.store.journal;
  const auto& rows = job.store.stream.segments;
  for (const SpoolSegment& row : news.segments) {
    const SpoolSegment* known = RowOf(rows, row.number);
    if (known != nullptr &&
        (known->writer != row.writer || known->first != row.first || known->count > row.count))
      Violate(job, absl::StrCat("the facts of segment ", row.number, " change"));
    CheckNewFacts(job, row, known == nullptr ? 0 : known->count);
  }
  const bool ends = news.mark.end && !before.end;
  if (before.end && news.mark.end != before.end) Violate(job, "the end of its stream changes");
  if (!news.trimmed.empty()) CheckTrim(job, news);
  if (news.segments.empty() && !ends) return;
  if (journal.ending.stop_asked || coordinator::Ended(journal.phase))
    Violate(job, absl::StrCat("facts come while it is ",
                              coordinator::Ended(journal.phase) ? "over" : "to stop"));
  if (ends) around_.coverage.Add(Corner::kStreamEnds);
}

// They are on the disk, and what the source gave.
void StreamInvariants::CheckNewFacts(const SimJob& job, const SpoolSegment& row, uint64_t known) {
  const auto file = job.spool.find(KeyOf(row));
  if (file == job.spool.end())
    return Violate(job, absl::StrCat("a fact of segment ", row.number, ", which nobody wrote"));
  if (file->second->first != row.first)
    return Violate(job, absl::StrCat("segment ", row.number, " begins with position ",
                                     file->second->first, ", and a fact says ", row.first));
  if (file->second->synced < row.count)
    return Violate(job, absl::StrCat("of segment ", row.number, " ", file->second->synced,
                                     " samples are on the disk, and ", row.count, " are facts"));
  for (uint64_t i = known; i < row.count; ++i)
    if (file->second->samples[i] != job.source->SampleAt(row.first + i))
      Violate(job, absl::StrCat("position ", row.first + i, " is not the source's sample"));
  around_.coverage.Add(Corner::kStreamFacts, static_cast<int64_t>(row.count - known));
}

// Of what the newest checkpoints need, as many as are kept, nothing goes.
void StreamInvariants::CheckTrim(const SimJob& job, const coordinator::PersistStream& news) {
  const coordinator::JobJournal& journal = *job.store.journal;
  std::vector<Manifest> saved = job.store.catalogue;
  std::erase_if(
      saved, [&](const Manifest& m) { return !OnAncestry(journal.lineages, m.lineage, m.step); });
  if (saved.empty()) return Violate(job, "its stream is trimmed, and there is no checkpoint");
  const std::vector<bool> kept = Kept(saved, journal.spec.runtime.checkpoint.keep);
  uint64_t needed = kMostSamples;
  for (size_t i = 0; i < saved.size(); ++i)
    if (kept[i])
      needed =
          std::min(needed, static_cast<uint64_t>(saved[i].step.value()) * StepsOf(job).samples);
  around_.coverage.Add(Corner::kTrimmedSegments, static_cast<int64_t>(news.trimmed.size()));
  for (const SpoolSegment& segment : news.trimmed) {
    if (segment.end() > needed)
      Violate(job,
              absl::StrCat("positions up to ", segment.end(), " are trimmed, and a checkpoint ",
                           "needs those from ", needed, " on"));
    if (RowOf(job.store.stream.segments, segment.number) == nullptr)
      Violate(job, absl::StrCat("segment ", segment.number, " is trimmed, which has no row"));
  }
}

// Without a gap, and no two say a position.
void StreamInvariants::CheckRows(const SimJob& job) {
  const StreamKnown known = job.store.known();
  const SpoolSegment* before = nullptr;
  for (const SpoolSegment& row : job.store.stream.segments) {
    if (row.count == 0) Violate(job, absl::StrCat("segment ", row.number, " has no samples"));
    if (before != nullptr && before->end() != row.first)
      Violate(job, absl::StrCat("facts end at ", before->end(), " and go on at ", row.first));
    before = &row;
  }
  if (known.positions > job.options.stream->samples)
    Violate(job, absl::StrCat(known.positions, " positions are facts, of ",
                              job.options.stream->samples));
  if (known.end && *known.end != job.options.stream->samples)
    Violate(job, absl::StrCat("its stream ends at ", *known.end, ", that of its source at ",
                              job.options.stream->samples));
  const StreamPlace right = job.source->PlaceBehind(known.positions);
  if (job.store.stream.mark.place != right)
    Violate(job, absl::StrCat("the place behind position ", known.positions,
                              " is not that of the source"));
}

void StreamInvariants::CheckDeleted(const SimJob& job, const SpoolKey& key) {
  if (job.gone) return;
  for (const SpoolSegment& row : job.store.stream.segments)
    if (KeyOf(row) == key)
      Violate(job, absl::StrCat("segment ", row.number, " is deleted, and has a row"));
}

void StreamInvariants::CheckRecord(const SimJob& job, const StepRecord& record) {
  if (!job.source) return;
  const auto range = KnownStep(StepsOf(job), job.store.known(), record.step);
  if (!range)
    return Violate(job, absl::StrCat("the record of step ", record.step.value(),
                                     " is taken, which is not known"));
  if (record.samples != SampleRange{0, range->first, range->count})
    Violate(job, absl::StrCat("the record of step ", record.step.value(), " is of ",
                              record.samples.count, " samples from ", record.samples.first, " on"));
}

// ---- what is said

void StreamInvariants::CheckSaid(const SimJob& job, const FromCoordinator& message) {
  if (const auto* told = std::get_if<StreamIs>(&message)) CheckIsFact(job, *told);
  const uint64_t facts = job.store.known().positions;
  const auto* ack = std::get_if<AckSpooled>(&message);
  if (ack != nullptr && ack->positions > facts)
    Violate(job, absl::StrCat("the reader is told of ", ack->positions, " facts, of ", facts));
  const auto* from = std::get_if<SpoolFrom>(&message);
  if (from == nullptr) return;
  if (from->positions != facts || from->place != job.store.stream.mark.place)
    Violate(job, absl::StrCat("the reader is to go on behind position ", from->positions, ", of ",
                              facts));
  if (facts > 0) around_.coverage.Add(Corner::kReadersGoOn);
}

void StreamInvariants::CheckIsFact(const SimJob& job, const StreamIs& told) {
  const StreamKnown known = job.store.known();
  if (told.positions > known.positions || (told.end && told.end != known.end))
    Violate(job, absl::StrCat("a member is told of ", told.positions,
                              " positions of the stream before they are facts"));
  for (const SpoolSegment& segment : told.segments) {
    const SpoolSegment* row = RowOf(job.store.stream.segments, segment.number);
    if (row == nullptr || row->writer != segment.writer || row->first != segment.first ||
        row->count < segment.count)
      Violate(job, absl::StrCat("a member is told of segment ", segment.number,
                                ", of which there is no such row"));
  }
}

// ---- the end

void StreamInvariants::CheckEnd(const SimJob& job, const AuditReport& report) {
  if (!job.source) return;
  const coordinator::JobJournal& journal = *job.store.journal;
  const StreamKnown known = job.store.known();
  const auto batch = StepsOf(job).samples;
  const auto recorded = static_cast<uint64_t>(job.store.Recorded().value());
  const uint64_t used = std::min(recorded * batch, job.options.stream->samples);
  if (report.samples + report.skipped_samples + report.left_out_samples != used)
    Violate(job, absl::StrCat("the audit says that ", report.samples + report.skipped_samples,
                              " samples were used, of ", used));
  if (known.positions < used)
    Violate(job, absl::StrCat(used, " samples were used, and ", known.positions, " are facts"));
  if (journal.phase != JobPhase::kDone) return;
  if (job.options.stream->samples == 0) Violate(job, "it is done, and there was no sample");
  around_.coverage.Add(Corner::kStreamsDone);
}

}  // namespace muster::sim
