#include "coordinator/state/stream_facts.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "lib/base/status.h"

namespace muster::coordinator {
namespace {

template <class... Words>
absl::Status DoesNotGoOn(const Words&... words) {
  return absl::FailedPreconditionError(absl::StrCat(words...));
}

// It was said before, in a session that broke before the answer.
bool IsKnown(const StreamFacts& facts, const SpoolSegment& fact) {
  if (facts.segments().empty()) return false;
  const SpoolSegment& last = facts.segments().back();
  return last.number == fact.number && last.writer == fact.writer && last.first == fact.first &&
         fact.count <= last.count;
}

}  // namespace

absl::StatusOr<bool> StreamFacts::Take(const Spooled& told, Incarnation reader) {
  if (told.count == 0 && !told.end) return DoesNotGoOn("it names neither samples nor an end");
  const SpoolSegment fact{told.segment, reader, told.first, told.count};
  const std::optional<uint64_t>& end = rows_.mark.end;
  const bool has_news = told.count > 0 && !IsKnown(*this, fact);
  if (has_news && end)
    return DoesNotGoOn("it names samples behind the end of the stream, which is ", *end);
  if (has_news) {
    const std::vector<SpoolSegment>& all = segments();
    if (all.empty() && fact.first != 0)
      return DoesNotGoOn("it begins with position ", fact.first, ", and none is known yet");
    const bool is_new = all.empty() || fact.number > all.back().number;
    if (is_new && all.size() >= kMostSpoolSegments)
      return absl::ResourceExhaustedError(absl::StrCat(
          "the spool has ", all.size(), " segments, and no more can be kept track of"));
    MUSTER_RETURN_IF_ERROR(AddFacts(rows_.segments, {fact}));
  }
  // What was added is the last, and ends there: an error here leaves all as it was.
  if (told.end && (told.first + told.count != positions() || (end && *end != positions())))
    return DoesNotGoOn("it says that the stream ends at ", told.first + told.count,
                       ", and the samples that are known end at ", positions());
  const bool ends = told.end && !end;
  if (!has_news && !ends) return false;
  rows_.mark.place = told.place;
  if (ends) rows_.mark.end = positions();
  return true;
}

std::vector<SpoolSegment> StreamFacts::Trim(uint64_t position) {
  std::vector<SpoolSegment> trimmed = TrimmedAt(rows_.segments, position);
  rows_.segments.erase(rows_.segments.begin(),
                       rows_.segments.begin() + static_cast<std::ptrdiff_t>(trimmed.size()));
  return trimmed;
}

uint64_t SampleBytesOf(const DataSpec& data) { return StreamSampleBytes(data).value_or(1); }

StreamStatus StatusOf(const StreamRows& rows, const DataSpec& data) {
  StreamStatus status{.positions = rows.positions(),
                      .end = rows.mark.end,
                      .trimmed = rows.trimmed(),
                      .segments = rows.segments.size(),
                      .file = rows.mark.place.file};
  const uint64_t sample_bytes = SampleBytesOf(data);
  for (const SpoolSegment& segment : rows.segments)
    status.spool_bytes += SpoolFileBytes(segment.count, sample_bytes);
  return status;
}

}  // namespace muster::coordinator
