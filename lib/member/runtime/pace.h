// The pace of work beside the steps: it rests between its pieces, so that it takes little of the
// cores that compute. Work that is late, or that nothing runs beside, does not rest.
#pragma once

#include <cstddef>
#include <optional>

#include "lib/base/mutex.h"
#include "lib/base/time.h"

namespace muster {

struct PaceRules {
  double share = 0.03;       // of a core: processor time of the work ÷ time since it began
  double of_interval = 0.5;  // it is done by then, however large the share is for that …
  Duration first_interval = std::chrono::minutes(1);  // … of the time between two works
};
struct PaceProgress {
  Duration elapsed{0};   // since the work began
  Duration busy{0};      // of that, processor time of its thread: waits for the disk are rests, too
  double done = 0;       // of all of it, 0 … 1
  Duration interval{0};  // from the begin of the work before to the begin of this one
};

// Pure. How long to rest now; never less than nothing.
Duration RestOf(const PaceRules& rules, const PaceProgress& progress);

// One thread works (Begin, Did); any thread may hurry it.
class Pace {
 public:
  static constexpr size_t kPieceBytes = size_t{2} << 20;

  explicit Pace(PaceRules rules) : rules_(rules) {}

  void Begin(size_t bytes);   // a work of so many bytes
  void Did(size_t bytes);     // rests, if it is time to
  void HurryWork();           // the work that was begun last rests no more
  void HurryAll(bool hurry);  // while true no work rests

 private:
  void RestUntil(Time until);

  const PaceRules rules_;
  // The working thread's.
  std::optional<Time> began_;
  Duration began_busy_{0};
  Duration interval_{0};
  size_t bytes_ = 0;
  size_t done_ = 0;
  size_t looked_ = 0;  // `done_` when it last looked at the clock

  Mutex mutex_;
  CondVar changed_;
  bool hurry_work_ ABSL_GUARDED_BY(mutex_) = false;
  bool hurry_all_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace muster
