#include "lib/domain/stream.h"

#include <algorithm>
#include <cstddef>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/base/status.h"

namespace muster {
namespace {

constexpr uint64_t kSegmentsOfSpool = 64;
constexpr uint64_t kMostSpoolBytes = uint64_t{1} << 60;  // more of them is no other answer

// Positions that the job uses, at most.
uint64_t MostPositions(const StreamSteps& steps) {
  if (steps.most == 0) return kMostSamples;
  const auto most = static_cast<uint64_t>(steps.most);
  return most > kMostSamples / steps.samples ? kMostSamples : most * steps.samples;
}

std::string ShapeText(const DataField& field) {
  return absl::StrCat("'", field.name, "' has the shape (", absl::StrJoin(field.shape, ", "), ")");
}

std::string Named(const SpoolSegment& segment) {
  return absl::StrCat("segment ", segment.number, " of positions ", segment.first, " to ",
                      segment.end());
}

bool IsBounded(const SpoolSegment& segment) {
  return segment.number >= 0 && segment.number <= kMaxNumber && segment.count >= 1 &&
         segment.first <= kMostSamples && segment.count <= kMostSamples - segment.first;
}

absl::Status AddFact(std::vector<SpoolSegment>& facts, const SpoolSegment& fact) {
  if (!IsBounded(fact))
    return absl::FailedPreconditionError(absl::StrCat(Named(fact), ": there can be none"));
  const SpoolSegment* last = facts.empty() ? nullptr : &facts.back();
  if (last == nullptr || fact.number > last->number) {
    if (last != nullptr && fact.first != last->end())
      return absl::FailedPreconditionError(
          absl::StrCat(Named(fact), " does not follow ", Named(*last)));
    if (facts.size() >= kMostSpoolSegments)
      return absl::FailedPreconditionError(
          absl::StrCat("there are ", facts.size(), " segments already"));
    facts.push_back(fact);
    return absl::OkStatus();
  }
  const auto same = std::find_if(facts.begin(), facts.end(), [&](const SpoolSegment& known) {
    return known.number == fact.number;
  });
  const bool goes_on = same != facts.end() && same->writer == fact.writer &&
                       same->first == fact.first &&
                       (same->count == fact.count || (&*same == last && fact.count > same->count));
  if (!goes_on)
    return absl::FailedPreconditionError(
        absl::StrCat(Named(fact), " is not what was told before",
                     same == facts.end() ? "" : absl::StrCat(", ", Named(*same))));
  same->count = fact.count;
  return absl::OkStatus();
}

}  // namespace

std::optional<StreamRange> KnownStep(const StreamSteps& steps, const StreamKnown& known,
                                     Step step) {
  if (step < Step(0) || (steps.most > 0 && step >= Step(steps.most))) return std::nullopt;
  const auto s = static_cast<uint64_t>(step.value());
  if (s >= kMostSamples / steps.samples) return std::nullopt;  // no number below overflows
  const uint64_t first = s * steps.samples, after = first + steps.samples;
  if (known.end) {
    if (first >= *known.end) return std::nullopt;
    return StreamRange{first, std::min(after, *known.end) - first};
  }
  const bool is_last_of_job = steps.most > 0 && step == Step(steps.most - 1);
  const bool has_all = is_last_of_job ? known.positions >= after : known.positions > after;
  if (!has_all) return std::nullopt;
  return StreamRange{first, steps.samples};
}

std::optional<int64_t> KnownTotal(const StreamSteps& steps, const StreamKnown& known) {
  if (known.end) {
    const auto of_stream =
        static_cast<int64_t>(*known.end / steps.samples + (*known.end % steps.samples != 0));
    return steps.most > 0 ? std::min(steps.most, of_stream) : of_stream;
  }
  // The stream has as many samples as the job uses.
  if (steps.most > 0 && known.positions >= MostPositions(steps)) return steps.most;
  return std::nullopt;
}

bool NeedsNoMore(const StreamSteps& steps, const StreamKnown& known) {
  return known.end.has_value() || known.positions >= MostPositions(steps);
}

absl::StatusOr<uint64_t> StreamSampleBytes(const DataSpec& data) {
  const auto bad = [](const auto&... words) {
    return absl::FailedPreconditionError(absl::StrCat("data.stream.fields: ", words...));
  };
  if (data.fields.empty()) return bad("say what a sample of the stream is made of");
  std::set<std::string> names;
  uint64_t sample_bytes = 0;
  for (const DataField& field : data.fields) {
    if (field.name.empty()) return bad("a field has no name");
    if (!names.insert(field.name).second) return bad("two are called '", field.name, "'");
    auto bytes = static_cast<uint64_t>(BytesOfElement(field.type));
    for (const int64_t size : field.shape) {
      if (size < 1) return bad(ShapeText(field), ", which holds nothing");
      if (static_cast<uint64_t>(size) > kMostStreamSampleBytes / bytes)
        return bad(ShapeText(field), "; a sample has at most ", kMostStreamSampleBytes, " bytes");
      bytes *= static_cast<uint64_t>(size);
    }
    sample_bytes += bytes;
    if (sample_bytes > kMostStreamSampleBytes)
      return bad("a sample would have ", sample_bytes, " bytes; it has at most ",
                 kMostStreamSampleBytes);
  }
  if (!data.label.empty() && data.fields.back().name != data.label)
    return absl::FailedPreconditionError(
        absl::StrCat("data.label: it is the last of data.stream.fields, which is '",
                     data.fields.back().name, "', and not '", data.label, "'"));
  return sample_bytes;
}

uint64_t SpoolFileBytes(uint64_t samples, uint64_t sample_bytes) {
  const uint64_t most = (kMostSpoolBytes - kSpoolHeadBytes) / (sample_bytes + kSpoolTailBytes);
  if (samples > most) return kMostSpoolBytes;
  return kSpoolHeadBytes + samples * (sample_bytes + kSpoolTailBytes);
}

uint64_t SamplesOfSegment(uint64_t max_bytes, uint64_t sample_bytes) {
  const uint64_t bytes = max_bytes / kSegmentsOfSpool;
  if (bytes <= kSpoolHeadBytes) return 1;
  return std::clamp<uint64_t>((bytes - kSpoolHeadBytes) / (sample_bytes + kSpoolTailBytes), 1,
                              kMostSamples);
}

uint64_t NeededPositions(const StreamSteps& steps, Step step) {
  const uint64_t most = MostPositions(steps);
  const auto ahead = static_cast<uint64_t>(std::max<int64_t>(step.value(), 0)) + 2;
  if (ahead >= kMostSamples / steps.samples) return most;
  return std::min(most, ahead * steps.samples + 1);
}

uint64_t RoomOfSpool(const StreamSteps& steps, absl::Span<const SpoolSegment> segments,
                     uint64_t positions, uint64_t max_bytes, uint64_t sample_bytes) {
  uint64_t taken = 0;
  for (const SpoolSegment& segment : segments)
    taken = std::min(kMostSpoolBytes, taken + SpoolFileBytes(segment.count, sample_bytes));
  // What comes begins a file, at times.
  taken += kSpoolHeadBytes;
  const uint64_t left = taken < max_bytes ? max_bytes - taken : 0;
  const uint64_t room = positions + left / (sample_bytes + kSpoolTailBytes);
  return std::max(positions, std::min(MostPositions(steps), room));
}

absl::Status AddFacts(std::vector<SpoolSegment>& facts, absl::Span<const SpoolSegment> news) {
  std::vector<SpoolSegment> added = facts;
  for (const SpoolSegment& fact : news)
    if (absl::Status status = AddFact(added, fact); !status.ok()) return status;
  facts = std::move(added);
  return absl::OkStatus();
}

absl::Status LearnFacts(std::vector<SpoolSegment>& facts, absl::Span<const SpoolSegment> news) {
  if (news.empty() || facts.empty()) return AddFacts(facts, news);
  const SpoolSegment last = facts.back();
  const bool is_behind = news.front().number > last.number && news.front().first > last.end();
  const auto added =
      static_cast<size_t>(std::count_if(news.begin(), news.end(), [&](const SpoolSegment& fact) {
        return fact.number > last.number;
      }));
  size_t dropped = 0;
  if (is_behind) {
    dropped = facts.size();
  } else if (facts.size() + added > kMostSpoolSegments) {
    dropped = std::min(facts.size(), facts.size() + added - kMostSpoolSegments);
  }
  std::vector<SpoolSegment> learned(facts.begin() + static_cast<std::ptrdiff_t>(dropped),
                                    facts.end());
  MUSTER_RETURN_IF_ERROR(AddFacts(learned, news));
  facts = std::move(learned);
  return absl::OkStatus();
}

std::vector<SpoolSegment> TrimmedAt(absl::Span<const SpoolSegment> facts, uint64_t position) {
  std::vector<SpoolSegment> trimmed;
  for (const SpoolSegment& fact : facts)
    if (&fact != &facts.back() && fact.end() <= position) trimmed.push_back(fact);
  return trimmed;
}

}  // namespace muster
