// Looks after a certificate on a thread of its own: again and again, at times that the one who
// looks says.
#pragma once

#include <functional>
#include <stop_token>
#include <thread>

#include "lib/base/mutex.h"
#include "lib/base/time.h"

namespace muster {

// Thread-safe.
class Renewal {
 public:
  // Does what is due, and says in how long to look again. It may wait, but not once `stop` is asked
  // for.
  using Look = std::function<Duration(const std::stop_token& stop)>;

  // The first look is after `first`.
  Renewal(Look look, Duration first);
  ~Renewal();  // a look that is under way is told to stop, and waited for
  Renewal(const Renewal&) = delete;
  Renewal& operator=(const Renewal&) = delete;

  void LookSoon();

 private:
  void Run();

  const Look look_;
  std::stop_source stopping_;
  Mutex mutex_;
  CondVar wakes_;
  Time next_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace muster
