// Which steps a member knows: all of them, or, of a job whose data is a stream, those whose samples
// it was told of (docs/decisions/0112-streams.md). In a step that it does not know it runs no lane
// and applies nothing. Lives as long as the member, since facts belong to no view; what it knows it
// never forgets.
#pragma once

#include <algorithm>
#include <optional>

#include "lib/domain/stream.h"
#include "lib/domain/view.h"
#include "lib/member/state/config.h"

namespace muster {

class KnownSteps {
 public:
  explicit KnownSteps(const MemberConfig& config)
      : is_streamed_(IsStreamed(config.training)),
        steps_(StepsOf(config.training)),
        samples_(config.environment.samples) {}

  // What is less than we know, such as a word that an older session brought, takes nothing away.
  void Learn(const StreamIs& told) {
    known_.positions = std::max(known_.positions, told.positions);
    if (!known_.end) known_.end = told.end;
  }

  bool is_streamed() const { return is_streamed_; }
  bool Has(Step step) const { return !is_streamed_ || KnownStep(steps_, known_, step).has_value(); }
  // Where members of `view` halt: at its end, or at that of the stream, if it is known and comes
  // before.
  Step EndIn(const View& view) const {
    const std::optional<int64_t> total = is_streamed_ ? KnownTotal(steps_, known_) : std::nullopt;
    return total ? std::min(view.end, Step(*total)) : view.end;
  }
  // What functions of the data set's size take; steps that are known are the same for whatever was
  // known before.
  uint64_t samples() const { return is_streamed_ ? SamplesOf(known_) : samples_; }
  uint64_t positions() const { return known_.positions; }

 private:
  bool is_streamed_;
  StreamSteps steps_;
  uint64_t samples_;  // of a job without a stream
  StreamKnown known_{};
};

}  // namespace muster
