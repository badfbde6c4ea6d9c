#include "tests/sim/stream.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace muster::sim {

// Most samples come close together; now and then there is a pause.
SimSource::SimSource(const StreamOptions& options) : options_(options) {
  int64_t at = 0;
  for (uint64_t position = 0; position <= options_.samples; ++position) {
    const uint64_t drawn = Mix64(20, options_.salt, position);
    const auto upto = [&drawn](int64_t most) {
      return static_cast<int64_t>(Mix64(21, drawn) % static_cast<uint64_t>(most + 1));
    };
    if (drawn % 200 == 0 || (position == options_.samples && drawn % 3 == 0))
      at += upto(6000);
    else if (drawn % 10 == 1)
      at += upto(10 * options_.pace);
    else
      at += upto(options_.pace);
    comes_at_.push_back(at);
  }
}

int64_t SimSource::Shift() const {
  if (!options_.stands_still_at || !went_on_at_) return 0;
  const int64_t would_go_on = comes_at_[static_cast<size_t>(*options_.stands_still_at)];
  return std::max<int64_t>(0, *went_on_at_ - would_go_on);
}

// Files come whole.
uint64_t SimSource::Whole(uint64_t samples) const {
  const bool is_all = options_.from == StreamFrom::kSocket || samples == options_.samples;
  return is_all ? samples : samples - samples % options_.file_samples;
}

uint64_t SimSource::CameBy(int64_t now) const {
  uint64_t came = 0;
  while (came < options_.samples) {
    const bool is_behind = options_.stands_still_at && came >= *options_.stands_still_at;
    if (is_behind && !went_on_at_) break;
    if (comes_at_[static_cast<size_t>(came)] + (is_behind ? Shift() : 0) > now) break;
    ++came;
  }
  return Whole(came);
}

bool SimSource::HasEndedBy(int64_t now) const {
  if (options_.stands_still_at && !went_on_at_) return false;
  return CameBy(now) == options_.samples && comes_at_.back() + Shift() <= now;
}

bool SimSource::StandsStillAt(int64_t now) const {
  if (!options_.stands_still_at || went_on_at_) return false;
  return comes_at_[static_cast<size_t>(*options_.stands_still_at)] <= now;
}

void SimSource::GoOn(int64_t now) {
  if (StandsStillAt(now)) went_on_at_ = now;
}

StreamPlace SimSource::PlaceBehind(uint64_t position) const {
  StreamPlace place;
  if (options_.from == StreamFrom::kSocket || position == 0) return place;
  const uint64_t file = (position - 1) / options_.file_samples;
  const uint64_t first = file * options_.file_samples;
  place.file = absl::StrFormat("%08d", file);
  place.sample = position - first;
  place.identity.bytes =
      std::min(options_.file_samples, options_.samples - first) * kSimSampleBytes;
  place.identity.inode = file + 1;
  place.seen = static_cast<int64_t>(file);
  return place;
}

std::string SimSource::WhyNotFrom(uint64_t position, const StreamPlace& place) const {
  if (position > options_.samples)
    return absl::StrCat("there are ", options_.samples, " samples, and position ", position,
                        " is asked for");
  const StreamPlace right = PlaceBehind(position);
  if (place == right) return "";
  return absl::StrCat("position ", position, " is behind sample ", right.sample, " of file '",
                      right.file, "', and not behind sample ", place.sample, " of '", place.file,
                      "'");
}

void SimSource::Answer(uint64_t positions) { answered_ = std::max(answered_, positions); }

const SpoolSegment* FactOf(const std::vector<SpoolSegment>& facts, uint64_t position) {
  for (const SpoolSegment& fact : facts)
    if (position >= fact.first && position < fact.end()) return &fact;
  return nullptr;
}

}  // namespace muster::sim
