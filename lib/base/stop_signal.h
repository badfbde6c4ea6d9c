// Ends a thread that does something now and then: what it waits on between two times. Lives as long
// as the thread. All functions are thread-safe.
#pragma once

#include "lib/base/clock.h"
#include "lib/base/mutex.h"
#include "lib/base/time.h"

namespace muster {

class StopSignal {
 public:
  void Stop() {  // for good
    {
      const MutexLock lock(mutex_);
      stopped_ = true;
    }
    changed_.NotifyAll();
  }

  bool stopped() {
    const MutexLock lock(mutex_);
    return stopped_;
  }

  // True: we are told to stop, and need not wait any longer. False: that time has come.
  bool WaitUntil(Time until) {
    const MutexLock lock(mutex_);
    while (!stopped_ && changed_.WaitUntil(mutex_, until)) {
    }
    return stopped_;
  }
  bool WaitFor(Duration time) { return WaitUntil(RealClock().Now() + time); }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace muster
