#include "lib/member/runtime/told_stream.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/status.h"

namespace muster {

absl::Status ToldStream::Learn(const StreamIs& told) {
  std::vector<SpoolSegment> facts = *map_->facts();
  MUSTER_RETURN_IF_ERROR(LearnFacts(facts, told.segments));
  const uint64_t end = facts.empty() ? 0 : facts.back().end();
  if (told.positions > end)
    return absl::FailedPreconditionError(
        absl::StrCat("there are ", told.positions, " positions, and segments up to ", end));
  map_->Set(std::make_shared<const std::vector<SpoolSegment>>(std::move(facts)));
  return absl::OkStatus();
}

}  // namespace muster
