// Lines of JSON for the host agent, one object each, on a descriptor it gave us: progress shows
// this way while the coordinator is down. Any thread. A full or closed pipe loses whole lines;
// where it is non-blocking, as the agent's are, it never costs time.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "lib/domain/ledger.h"
#include "lib/domain/view.h"

namespace muster {

class Reporter {
 public:
  // `fd` -1: nobody listens. It stays the caller's.
  Reporter(int fd, std::string member) : fd_(fd), member_(std::move(member)) {}

  // {"event":"step","member":…,"rank":…,"step":…,"epoch":…,"loss":…,"samples":…,"seconds":…}: a
  // step is complete; loss is per sample or token (null when it is no number), samples those of the
  // whole step, seconds since the step before was complete.
  void Step(const StepRecord& record, Rank rank, double seconds) const;
  void Joined(const View& view, Rank rank, Incarnation incarnation) const;
  void MetricsAt(absl::string_view address) const;
  // It reads its data and makes its model, which may take minutes; then it joins. `text`, one line:
  // how far it is; may be empty.
  void Prepares(absl::string_view text = "") const;
  void Sample(absl::string_view text) const;
  // {"event":"stream","member":…,"positions":…}: so many samples of the stream are safe.
  void Spooled(uint64_t positions) const;
  // {"event":"ends","member":…,"code":…}: the process is about to end with this code.
  void Ends(int exit_code) const;

 private:
  void Line(absl::string_view event, absl::string_view fields) const;

  const int fd_;
  const std::string member_;
};

// A JSON string with its quotes. Bytes that are not UTF-8 are replaced.
std::string JsonText(absl::string_view text);

}  // namespace muster
