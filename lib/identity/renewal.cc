#include "lib/identity/renewal.h"

#include <algorithm>
#include <utility>

namespace muster {

Renewal::Renewal(Look look, Duration first)
    : look_(std::move(look)),
      next_(std::chrono::steady_clock::now() + first),
      thread_([this] { Run(); }) {}

Renewal::~Renewal() {
  {
    const MutexLock lock(mutex_);
    stopping_.request_stop();
  }
  wakes_.NotifyAll();
  thread_.join();
}

void Renewal::LookSoon() {
  {
    const MutexLock lock(mutex_);
    next_ = std::chrono::steady_clock::now();
  }
  wakes_.NotifyAll();
}

void Renewal::Run() {
  MutexLock lock(mutex_);
  while (!stopping_.stop_requested()) {
    if (wakes_.WaitUntil(mutex_, next_) || std::chrono::steady_clock::now() < next_) continue;
    // Who asks for a look while one is under way gets another.
    next_ = Time::max();
    lock.Unlock();
    const Duration again = look_(stopping_.get_token());
    lock.Relock();
    next_ = std::min(next_, std::chrono::steady_clock::now() + again);
  }
}

}  // namespace muster
